"""Own incremental view maintenance.

Updating queries that Spark cannot stream, or that keyed operators run with less CPU time, run in `foreachBatch` as
stages over keyed state. The stages as values, with their description; `planning` makes them. `keyed` runs them by
operators in one job a batch, `operators` those that have none there, by jobs over `state`.
"""
