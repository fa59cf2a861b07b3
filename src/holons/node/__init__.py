"""The node: runs partitions, keeps replicas, detects dead nodes and takes their partitions over. No coordinator.

Read `node.py` (the loop), `membership.py`, `ownership.py` and `placement.py` (who runs what), `partition.py` and
`recovery.py` (how a partition runs and resumes). What is settled here:

*Claims.* A node that has just started listens for two heartbeats before it claims anything. Nodes that hold less than
their share claim first, and rendezvous hashing orders those; so a job starts evenly spread, and the partitions of a dead
node go to the nodes that have the least. Beside its share of all partitions, a node has a share of each stream: with a
stream of few rows and one of many, one node would else get most of the work. A slot of a partition whose owner holds
another slot of the same partition counts as vacant.

*Suspects.* A node sends a heartbeat that lists a partition before it reads a row of it, so that a node's last heartbeat
says what it died of. Three owners in a row that died without getting past one offset stop the job (`Poison`), once each has
been silent for three failure timeouts; until then one of them may only be slow, and nobody claims the partition.
Partitions that are parked, held back or without work do not count.

*Finishing.* A node that reports a job as finished speaks for everybody who runs a part of it, so a driver does not wait
for a node that hangs. What others have reported it compares with the logs, each partition once, so it may believe the dead:
heartbeats may be newer than outputs that were restored from a copy. A node announces at once that it has finished, and for
a second looks for the announcements of others every few milliseconds, since somebody waits for them.

*Order of work.* A partition that could not emit all complete windows in its slice reads nothing more until it has:
otherwise rows that wait for their windows (those of joins above all) pile up while a log is read at full speed, and every
checkpoint holds them. The slowest partition always reads: a partition is held back by `max_ahead_s` only if another one
has sealed less, or if it still owes windows that all have sealed (`skew.py` has the argument).

*Records.* The window record is stored before the process record, which then leaves out the WLocal values that the window
record has passed, and states how far a window record must reach to go with it. If the newest window record is torn, the
process record before it goes with the older window record. A run drops WLocal values as soon as their windows are
emitted, so a process record waits until a durable window record has passed what its run has dropped. Where records become
durable only later, in the memory of other nodes, a run drops only what those hold. Window records never go back in any
stage: of two owners that are ahead of each other in different stages, the one that is behind in some stage does not store.
A run begins only where both of its records fit; otherwise it raises `CheckpointLost`, and emits no row from what is left.

*Replicas.* A job's shared state (a replica) is stored less often the longer storing takes: at most about a tenth of a
node's time, and a large one only after four times as many bytes of messages. Stored replicas serve nodes that join, and
let the sync stream be trimmed; the recovery of partitions does not wait for them. The sync stream is trimmed below what
the trimming node stored the time before, not below the newest snapshot of all: that may be a moment old, and a node
that was busy for that moment would have to begin again from it. Whether something was trimmed is checked after reading,
since reading continues behind what is gone.

*Lost records.* With records in the memory of other nodes, the nodes that hold one may be stalled or cut off. So a job
stops with `CheckpointLost` only after `loss_patience_s` of time in which other nodes could be heard. Meanwhile no
partition runs on a guess.

*Missing seals.* A record is stored once what was sealed is in the sync stream, so who resumes from it does not seal it
again. If the stream was restored from an older copy, the partition runs again from the beginning of its input
(`missing.py`): that needs no window of others unless its program awaits some.

*Idle* is a partition whose owner has read to the end of its log and seen no row there for `idle_s`. A partition that waits
for a window is not idle, and time in which a log did not answer does not count. Of several owners the one that has read
the most decides; dead nodes do not. A mark is the least progress of the partitions that are neither idle nor ended, and is
written only where it moves something.

*Quiet* is a job all of whose partitions are idle or ended. Then event time goes on as log time does: when the newest row
was appended, and the time that has passed since by the clock of the partition's owner, less the longest delay with which
live rows came lately (`program.delays`), less the disorder. The owners' calendars do not count. Marks come only where a
window that holds something is over, so that event time stands still once nothing is open: what a device sends in the morning
is not late because the night was long. By default (`idle_s="auto"`) a mark beside active partitions goes no further either.

*At least once* (`Settings.guarantee`) appends output rows instead of putting them at positions (`streams.appended`). The
order of writing stays the same (outputs, deltas, records), so nothing is lost; records are not compared with outputs, whose
ends say nothing. Every writer continues from a record that covers what came before, so first occurrences are in order.

*Previews* travel in a stream of their own, so that sync and its trimming know nothing of them. A message holds all open
panes of one partition in one stage; the newest position wins. Its writer trims below the oldest message that is still the
newest of some partition, and sends again what has not changed for long. Open and sealed panes are disjoint, so a stale
preview is old, never wrong.

*Upgrades replay.* A new version starts from the beginning of its inputs, silently, so that its state (sessions,
`accumulate`, `Local`) is as if it had always run. It therefore needs the whole input.
"""

from holons.node.jobs import Beginning, Decisions, Jobs, cancel, late_beginnings, read_jobs, submit
from holons.node.messages import Heartbeat, Running, Stopped, Submitted, decode_heartbeat
from holons.node.node import Node
from holons.node.ports import Ports, partitions_of
from holons.node.retention import retain
from holons.node.rules import RetentionRules
from holons.node.settings import Settings
from holons.node.site import NodeSite, Site, SiteWithFolders, no_disk, no_such_input, sync_stream

__all__ = [
    "Beginning",
    "Decisions",
    "Heartbeat",
    "Jobs",
    "Node",
    "NodeSite",
    "Ports",
    "RetentionRules",
    "Running",
    "Settings",
    "Site",
    "SiteWithFolders",
    "Stopped",
    "Submitted",
    "cancel",
    "decode_heartbeat",
    "late_beginnings",
    "no_disk",
    "no_such_input",
    "partitions_of",
    "read_jobs",
    "retain",
    "submit",
    "sync_stream",
]
