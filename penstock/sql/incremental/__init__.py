"""Own incremental view maintenance.

Updating queries that Spark cannot stream, run in `foreachBatch` as stages over keyed state. The stages as
values, with their description; `planning` makes them, `operators` runs them on `state`.
"""
