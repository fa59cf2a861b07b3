"""Nodes on Spark: each one a long-lived task of its own. The only room that imports pyspark."""
