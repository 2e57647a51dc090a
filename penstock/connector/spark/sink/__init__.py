"""Writing micro-batches from Spark: foreachBatch queries, replayed batches, rows as targets declare them.

Called by the sinks of connectors and by `sql`.
"""
