"""The catalog in a SQL database (SQLite or PostgreSQL): definitions as versioned JSON, history, leases, secrets.

`sql_catalog.py` implements `catalog.definitions.contract.Catalog`; the other modules own one kind of row each, within
the caller's transaction.
"""
