"""Show a physical plan, as EXPLAIN does: its operators as a tree, in lines of text or as JSON.

Called by `check` and `cli/output`. Starts nothing and reads no table.
"""
