"""What a table is: definitions as values, names, options, errors, and the store that keeps them.

Imports nothing of Penstock outside this folder. Begin with `table.py` and `schema.py`.
"""
