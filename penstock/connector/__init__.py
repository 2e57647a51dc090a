"""Tables: how they are read and written. The split runtime, its Spark executor, formats, and the connectors.

The root holds what all folders use: protocols and values (`contract`, `changelog`, `scan`), storage, and
`registry`, the only module that names connectors. It imports from no folder below. `source` is the split
runtime without engine and client, `spark` runs it, and `kafka`, `delta`, `filesystem`, `jdbc` and smaller
folders are connectors.
"""
