"""Writing micro-batches from Spark: foreachBatch queries, replayed batches, rows as targets declare them.

Called by `delta`, `jdbc`, `filesystem/sink`, `kafka/sink`, `print`, `memory` and `sql`.
"""
