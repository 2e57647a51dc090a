"""The local Java installation, and pinned jars from Maven Central.

Called by `kafka/broker`, `connector/delta`, `registry`, `spark_process`, `serve` and `cli/commands`.
"""
