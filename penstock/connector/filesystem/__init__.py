"""The connector `filesystem`: tables of files in a folder.

`table` is the definition as checked values, `source` reads files line by line, `sink` writes files exactly
once. `connector` checks a table and describes source and sink; `inference` samples files.
"""
