"""Own the tools for syntax trees: nodes, traversal, source positions, parse errors and spelling suggestions.

Imports no other folder of `sql`. Called by `dialect`, `binding`, `convert` and `plan`.
"""
