"""Arrow batches: types, casts of metadata, and DuckDB as the expression engine.

Called by `formats`, `event_time`, `jdbc`, `kafka/source`, `testing` and `sql/cli`. Knows neither Spark nor connectors.
"""
