"""Where rows and columns come from: a graph of tables and views, built from definitions and INSERTs.

`query` looks at one query, `build` puts the catalog and SQL files together into a `graph`, `text` writes it.
"""
