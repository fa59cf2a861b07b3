"""Stock Structured Streaming: what Holons is compared with, written and tuned as one who knows Spark would do it.

Nothing here uses anything of ours but bids to read. It is the one room besides `engines.spark` that imports pyspark:
engines run nodes, and a baseline has none.
"""
