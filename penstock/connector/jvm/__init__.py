"""The local Java installation, and pinned jars from Maven Central.

Called by the embedded broker, Delta tables and the start of Spark.
"""
