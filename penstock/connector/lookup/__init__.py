"""Lookup joins: the contract of lookup sources, their cache and retries, rows by key.

Called by `connector/jdbc`, `spark/lookup`, `sql/plan` and `binding`.
"""
