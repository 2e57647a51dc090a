"""Own the operators of incremental queries and the streaming query that runs them batch by batch.

Called by `plan/physical`.
"""
