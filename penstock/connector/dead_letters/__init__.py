"""Dead letters of queries: their tables, publishing, reading and replaying.

Called by `plan/physical`, `runner`, `sql/checkpoint` and `cli/commands`. Tasks write dead letters
through `bad_records`.
"""
