"""Lets Spark's Python processes connect to its JVM as soon as they run.

For streaming sources Spark starts a process of its own and gives it ten seconds to connect and to say its secret, which no
setting changes. It first imports half a second's worth of modules: on a machine that is busy enough the query fails. Here
both is done before all imports. When `pyspark` connects it gets this connection, and its own first message, the secret, is
dropped; the answer to it is there already.
"""

import os

if _port := os.environ.get("PYTHON_WORKER_FACTORY_PORT"):
    import socket

    _place, _secret = ("127.0.0.1", int(_port)), os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
    _early = socket.create_connection(_place)
    _early.sendall(len(_secret).to_bytes(4, "big") + _secret)
    _connect = socket.socket.connect

    class _Known(socket.socket):
        __slots__ = ()

        def send(self, data, *flags):
            self.__class__ = socket.socket
            return len(data)

    def _handed_over(self, address):
        if address == _place:
            socket.socket.connect = _connect
            os.dup2(_early.fileno(), self.fileno())
            _early.close()
            self.__class__ = _Known
        else:
            _connect(self, address)

    socket.socket.connect = _handed_over
