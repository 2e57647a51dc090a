"""Own the dialect class `Flink`: its tokens, and the functions that parse and print trees with it.

Called by `rewrites`, `spark`, `binding` and `convert`.
"""
