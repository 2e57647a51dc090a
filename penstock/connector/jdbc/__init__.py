"""The connector `jdbc`: tables of PostgreSQL and SQLite, written exactly once, scanned, and looked up by key.

Flink's options, Python's drivers. `address` reads the URL, `settings` the options; `database` holds the
connection. `sink` writes a transaction per micro-batch by the SQL of `statements`.
`scan` reads partitions as Arrow batches for `source`; `lookup` reads the rows of keys.
`catalog` lists a server's tables.
"""
