"""Logs between the processes of one machine, in LMDB.

Read `directory.py` (what lies where, and why nobody can block anybody), then `log.py` and `shared.py`.
"""

from holons.streams.lmdb.description import StreamDescription, describe
from holons.streams.lmdb.directory import partitions_in, streams_in
from holons.streams.lmdb.log import LmdbLog
from holons.streams.lmdb.shared import LmdbSharedLog
from holons.streams.lmdb.writer import Durability

__all__ = ["Durability", "LmdbLog", "LmdbSharedLog", "StreamDescription", "describe", "partitions_in", "streams_in"]
