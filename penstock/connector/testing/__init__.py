"""The connector `fixture` of `penstock test`: replaces a table's own connector, so that no broker is needed.

The table keeps its definition, format, options and the split runtime. Records are files with the content of a
topic (`decode`), `encode` makes them of rows in the table's format, `reader` reads them as splits. `sink` keeps written
rows in this process. `values` reads values of SQL types.
"""
