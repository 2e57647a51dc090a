"""The connector `memory`: tables in the memory of this process, for tests and trials.

`connector` checks a table, `tables` holds rows and reads them, `sink` writes them.
"""
