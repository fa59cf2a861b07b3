"""Nodes on Spark: each node is a long-lived task of its own. The only room that imports pyspark.

**Deaths** are the failed attempts in Spark's list of tasks, not missing heartbeats: the next attempt of a task may send its
first heartbeat only when everything is finished.

**Tasks of our own session are tried four times**, as on a cluster. The driver replaces nodes that Spark gives up, and a
user's query with an error in it fails within a second instead of minutes.

**A node uses one thread, in polars too** (`engines.driver.ENVIRONMENT`): two nodes on two cores with two threads each only
wait for each other. A node keeps memory that it frees: a third of the time of a large join was the kernel's, which cleared
pages that had been returned a moment before.

**A fold takes no marks.** DataFrames have rows only, so over a streaming DataFrame a silent partition holds windows back,
and the end has to be declared (`finish`). Several inputs are folded as batches only.

**Completed windows are read as a job's output.** The values of a window are known to those who have the program, which
travels signed to nodes and to nobody else; a data source has only the rows that `on_window` emitted.
"""
