"""The connector `jdbc`: rows into tables of PostgreSQL and SQLite, exactly once, and out of them. Flink's options,
Python's drivers.

`address` reads the URL, `settings` and `scan_settings` the options; `database` holds the connection. `statements` is
the SQL of writing, `wire` turns Arrow batches into what the database takes; `sink` puts them together, a transaction
for each micro-batch. `scan` reads partitions as Arrow batches, `source` does so in Spark's tasks. `lookup` gives the
rows of keys: `lookup_settings` are its options, `lookup_keys` and `lookup_text` its SQL, `key_reader` asks. `catalog`
shows a server's tables as definitions.
"""
