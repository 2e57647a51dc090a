"""What a table is: its columns, types, options; where definitions are kept; which names stand for them.

A definition is a `table.Table` or `table.View`, its columns in `schema` and `types`, its text options described by
`options`. `contract.Catalog` keeps definitions (`store.SqlCatalog` in a database; `federation.Federation` puts catalogs
beside it whose tables are found elsewhere), `names.Namespace` is a session's view of it. Imports nothing else of
Penstock.
"""
