"""Own the commands, a module for each family: they turn arguments into calls.

`app.py` is the root command and the entry point of the `penstock` script.
"""
