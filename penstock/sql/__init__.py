"""Own everything between SQL text and a running query: dialect, binding, statements, plans, jobs and commands.

The top layer: it imports `connector` and `catalog`, never the other way round.
"""
