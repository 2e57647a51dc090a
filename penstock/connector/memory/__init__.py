"""Tables in the memory of this process, for tests and trials. `connector` checks a table; `rows` holds what was
written; `sink` writes it, `source` reads it back.
"""
