"""Own what is decided about a query before any JVM runs.

That is: tables and columns read, changelog modes, names and checkpoints. Called by `check`, `runner`, `jobs`,
`session` and `shell`.
"""
