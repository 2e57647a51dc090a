"""Own running queries.

Jobs with their supervisors, progress, leases and restarts, and queries whose rows a person watches. Called by
`check`, `execution`, `runner`, `session` and `notebook`.
"""
