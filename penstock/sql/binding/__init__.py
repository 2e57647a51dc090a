"""Own the check of a query against the catalog: tables, columns, functions, hints; and the types of its nodes.

Called by `expressions`, `convert`, `plan` and `lineage`.
"""
