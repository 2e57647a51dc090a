"""Columns as the bytes of records, by Spark SQL expressions: the JVM serializes, and no record enters Python.

Called by `kafka/sink` and `dead_letters`.
"""
