"""The connector `delta`: Delta tables by path, appended to or upserted exactly once, read by Spark.

`log` reads Delta logs without an engine.
"""
