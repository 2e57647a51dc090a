"""Own the writer of Flink SQL: the parser reads its output back as the same tree. Assembled by `dialect/flink`."""
