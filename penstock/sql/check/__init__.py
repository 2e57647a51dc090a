"""Own what is found out about whole files before anything runs, without a JVM.

Errors, names of queries, EXPLAIN, connectivity. Called by `runner`, `lineage` and the commands.
"""
