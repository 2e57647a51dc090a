"""Lookup joins: the contract of lookup sources, their cache and retries, rows by key.

Called by `jdbc/lookup` and `spark/lookup`.
"""
