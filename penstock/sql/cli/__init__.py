"""The `penstock` command: turns arguments into calls and results into text. No logic of SQL or Spark lives here.

Commands import what they need when they run, so `--help`, `version` and `catalog` never wait for pyspark.
"""
