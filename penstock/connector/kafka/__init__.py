"""Kafka tables. `connector` checks a table and describes its scan; `planner` is the driver's side, `reader` a task's.

`client` is the only module that knows the client library; `broker` runs a broker of our own for demo and tests.
"""
