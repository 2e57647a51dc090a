"""How tables are read and written: the split runtime, its Spark executor, and the connectors.

Imports point one way: `spark` → `registry` → `kafka`, `delta` → `formats` → `source` → `contract`.
"""
