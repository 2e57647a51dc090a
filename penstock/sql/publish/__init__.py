"""Own the publication of the catalog to plain Spark SQL: names, texts and entries of Spark's session catalog.

Called by `session` and `serve`.
"""
