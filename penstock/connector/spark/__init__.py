"""Spark for all connectors: sessions, types, errors, files on Hadoop's file systems.

`source` has the data sources, `sink` the writing of micro-batches, `encoding` the expressions that encode
records. Called by `sql`, `delta`, `filesystem/sink`, `kafka/sink`, `jdbc`, `memory` and `dead_letters`.
"""
