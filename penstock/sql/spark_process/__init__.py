"""Own Spark as a process: start, check and end the Spark session and its Java process.

Called by `session`, `shell` and `cli/commands`.
"""
