"""Own the run of keyed operators: the job of a batch, its tasks, the state of their buckets, and its compaction.

Called by `sql/plan/physical`.
"""
