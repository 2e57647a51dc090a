"""Arrow batches: types, casts of metadata, and DuckDB as the expression engine.

Called by formats, event time, lookups and connectors. Knows neither Spark nor connectors.
"""
