"""Own the writer of Flink SQL: the parser reads its output back as the same tree.

`flink_generator` has its tables, each other module the functions of one family. Called by `dialect/flink`.
"""
