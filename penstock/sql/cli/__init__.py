"""Own the `penstock` command: `commands` has a module for each family, `output` what they print.

This module has what several commands share. No logic of SQL or Spark.
"""
