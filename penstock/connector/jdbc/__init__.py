"""The connector `jdbc`: rows into tables of PostgreSQL and SQLite, exactly once. Flink's options, Python's drivers.

`address` reads the URL, `settings` the options; `database` holds the connection, `statements` the SQL, `wire` turns
Arrow batches into what the database takes; `sink` puts them together, a transaction for each micro-batch.
"""
