"""The local Java installation, pinned jars from Maven Central, and regular expressions as Java reads them.

Called by `kafka/broker`, `connector/delta`, `registry`, `spark_process`, `serve` and `cli/commands`.
"""
