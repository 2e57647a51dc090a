"""Own the `penstock` command: `commands` has one module per command, `output` what they print.

This module has what several commands share. No logic of SQL or Spark.
"""
