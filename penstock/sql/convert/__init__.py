"""Own the conversion of a statement's text to its value: parse, resolve names, check rules.

One module per family. Called by `check`, `runner`, `session` and `shell`.
"""
