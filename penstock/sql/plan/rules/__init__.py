"""Own the rules over a query's syntax tree.

Changelog modes, joins, aggregates, Top-N, columns read, what streams cannot do. Called by `plan`, `checkpoint`
and `incremental/planning`.
"""
