"""Tables and views as values: columns, types, options; the catalogs that store them; name resolution.

A definition is a `model.table.Table` or `View`, its columns in `model.schema` and `model.types`, its text options
described by `options`. `definitions.contract.Catalog` stores definitions (`store.SqlCatalog` in a database;
`definitions.federated.FederatedCatalog` adds catalogs whose tables are found elsewhere),
`definitions.resolver.Namespace` is a session's view of it. Imports nothing else of Penstock.
"""
