"""Dead letters of queries: their tables, publishing, reading and replaying.

Called by `sql` for running queries and for `penstock dlq`. Tasks write dead letters through `bad_records`.
"""
