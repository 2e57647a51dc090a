"""Answer questions about a query's syntax tree: changelog modes, joins, aggregates, Top-N, columns read.

Builder, placement and the writers of a plan share them. The rules that change a tree are `plan/syntax_rules.py`.
"""
