"""Own the commands, a module each: they turn arguments into calls.

`app.py` is the root command and the entry point of the `penstock` script.
"""
