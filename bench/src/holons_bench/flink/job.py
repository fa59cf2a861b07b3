"""Runs Flink: a script for the Python of Flink's environment, which has py4j and nothing of ours.

It reads lines of JSON and answers with lines of JSON. The first one read says how to start (`jars`, `java`, `options`,
`cluster`, `table`, `cores`); each one after it is a job (`define`, `sql`, `collect`, `options`, and `paced` if it reads
bids that come at a steady rate), answered by `running` once all tasks run and by `finished` (or `failed`). Standard
input that ends is the sign to end, whatever is running: the JVM then ends as well.

One JVM with one MiniCluster serves all jobs, so that a job that has run before finds warm code. What Flink's planner
generates is compiled anew for every job; no Flink user can avoid that.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import queue
import sys
import threading
import time
from typing import Any, TextIO

_LOOK_S = 0.01
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - Flink's window times have no zone either


class Cluster:
    """A MiniCluster in a JVM of its own, and table environments that send their jobs to it."""

    def __init__(self, setup: dict[str, Any]) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        port, token = launch_gateway(
            classpath=os.pathsep.join(setup["jars"]),
            javaopts=setup["options"],
            java_path=setup["java"],
            die_on_exit=True,
            redirect_stdout=sys.stderr,
            redirect_stderr=sys.stderr,
            enable_auth=True,
        )
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self._flink = self._gateway.jvm.org.apache.flink
        self._table = setup["table"]
        self._cores = setup["cores"]
        builder = self._flink.runtime.minicluster.MiniClusterConfiguration.Builder()
        builder.setConfiguration(self._configuration(setup["cluster"]))
        builder.setNumTaskManagers(1).setNumSlotsPerTaskManager(setup["cores"])
        self._mini = self._flink.runtime.minicluster.MiniCluster(builder.build())
        self._mini.start()
        self._rest = self._mini.getRestAddress().get()

    def run(self, job: dict[str, Any], answer: Any) -> dict[str, Any]:  # noqa: ANN401 - a function
        """Runs a job to its end: how long it ran, and its rows if they are wanted."""
        configuration = self._job_configuration(job.get("options", {}))
        tables = self._paced(configuration, **job["paced"]) if "paced" in job else self._tables(configuration)
        for statement in job["define"]:
            tables.executeSql(statement)
        table = tables.sqlQuery(job["sql"])
        if job["collect"]:
            result = table.execute()
        else:
            result = table.executeInsert(self._flink.table.api.TableDescriptor.forConnector("blackhole").build())
        submitted_ms = time.time() * 1e3
        job_id = result.getJobClient().get().getJobID()
        rows = None
        if job["collect"]:
            rows = self._collected(result)
            began_ms = None
        else:
            began_ms = self._until_running(job_id)
            answer({"state": "running"})
        outcome = self._mini.requestJobResult(job_id).get()
        failure = outcome.getSerializedThrowable()
        if failure.isPresent():
            raise RuntimeError(failure.get().getFullStringifiedStackTrace()[-4_000:])
        ended_ms = self._mini.getExecutionGraph(job_id).get().getStatusTimestamp(self._finished())
        began_ms = began_ms or self._running_since(job_id) or submitted_ms
        return {"state": "finished", "wall_s": (ended_ms - began_ms) / 1e3, "rows": rows}

    def _job_configuration(self, options: dict[str, str]) -> Any:  # noqa: ANN401 - Java
        place = {"rest.address": self._rest.getHost(), "rest.port": str(self._rest.getPort())}
        return self._configuration({**self._table, **options, **place, "execution.target": "remote"})

    def _tables(self, configuration: Any) -> Any:  # noqa: ANN401 - Java
        settings = self._flink.table.api.EnvironmentSettings.newInstance().inStreamingMode()
        return self._flink.table.api.TableEnvironment.create(settings.withConfiguration(configuration).build())

    def _paced(self, configuration: Any, start_us: int, rate: int, bids_per_reader: int, seed: int) -> Any:  # noqa: ANN401 - Java
        return self._gateway.jvm.holons.Paced.tables(configuration, start_us, rate, bids_per_reader, self._cores, seed)

    def _configuration(self, options: dict[str, str]) -> Any:  # noqa: ANN401 - Java
        configuration = self._flink.configuration.Configuration()
        for name, value in options.items():
            configuration.setString(name, value)
        return configuration

    def _finished(self) -> Any:  # noqa: ANN401 - Java
        return self._flink.api.common.JobStatus.FINISHED

    def _until_running(self, job_id: Any) -> float | None:  # noqa: ANN401 - Java
        """Waits until all tasks run, or the job is over; tells since when they all do, in Flink's milliseconds."""
        while True:
            state = self._mini.getExecutionGraph(job_id).get().getState()
            began_ms = self._running_since(job_id)
            if began_ms or state.isGloballyTerminalState():
                return began_ms
            time.sleep(_LOOK_S)

    def _running_since(self, job_id: Any) -> float | None:  # noqa: ANN401 - Java
        running = self._flink.runtime.execution.ExecutionState.RUNNING
        graph = self._mini.getExecutionGraph(job_id).get()
        tasks, since = graph.getAllExecutionVertices().iterator(), []
        while tasks.hasNext():
            since.append(tasks.next().getCurrentExecutionAttempt().getStateTimestamp(running))
        return max(since) if since and all(since) else None

    def _collected(self, result: Any) -> list[list[Any]]:  # noqa: ANN401 - Java
        """Returns all changes, each as its kind (`+I`, `-U`, `+U`, `-D`) followed by its values."""
        rows, changes = [], result.collect()
        while changes.hasNext():
            row = changes.next()
            rows.append([row.getKind().shortString(), *(_value(row.getField(at)) for at in range(row.getArity()))])
        changes.close()
        return rows


def _value(value: Any) -> Any:  # noqa: ANN401 - Java, or what py4j has made of it
    """Returns a value as JSON has it: times in microseconds."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    if hasattr(value, "getClass"):
        text = value.toString()
        if value.getClass().getSimpleName() == "LocalDateTime":
            return (datetime.datetime.fromisoformat(text) - _EPOCH) // datetime.timedelta(microseconds=1)
        return text
    return value


def _listen(lines: queue.Queue[str]) -> None:
    """Hands lines on; the end of standard input is the end of everything."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def main() -> None:
    """Answers on what was standard output; whatever else is printed goes to standard error."""
    out: TextIO = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()

    def answer(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    try:
        cluster = Cluster(json.loads(lines.get()))
        answer({"state": "ready"})
        while True:
            answer(cluster.run(json.loads(lines.get()), answer))
    except Exception as failure:  # noqa: BLE001 - told to whoever asked, who then ends us
        answer({"state": "failed", "why": f"{type(failure).__name__}: {failure}"[-4_000:]})
        lines.get()


if __name__ == "__main__":
    main()
