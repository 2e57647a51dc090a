"""Maintained queries: updating queries that Spark cannot stream, kept up to date batch by batch.

A streaming query reads the feeds; in each micro-batch their changes go through stages, which keep their state in
the checkpoint. planning.py -> stages.py (what a query becomes) -> arrangement.py, run.py (running it:
`MaintainedRun(maintained, folder, time_to_live_ms)`, `check(frame)`, `with run.batch(frame, batch_id) as changes`).
"""
