"""Show a physical plan, as EXPLAIN does: its operators as a tree, in lines of text or as JSON.

Called by `check` and `cli/output`, and by `plan/physical` for what a checkpoint records of a plan (`record.py`).
Starts nothing and reads no table.
"""
