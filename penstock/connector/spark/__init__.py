"""Spark for all connectors: sessions, types, errors, files on Hadoop's file systems.

`source` has the data sources, `sink` the writing of micro-batches, `encoding` the expressions that encode
records. Called by connectors and `sql`.
"""
