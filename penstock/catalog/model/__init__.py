"""Values of the catalog: types, schemas, tables, functions, namespaces, and their JSON form.

Pure: no I/O, no engine. Everything else imports this folder.
"""
