"""Nexmark's queries on one recorded topic, by Penstock, Flink SQL and Spark alone: `python -m benchmarks.nexmark`.

`__main__` measures and reports, `topic` records, `answers` compares, `queries` reads `queries/*.sql`. `orders` is what
the engines are told; `engines` and `flink` are their processes, `processes` starts them. With `--paced`: `paced`
measures, `steady_events` writes, `latency` compares times. `queries` and `orders` are imported by Flink's own
environment too, and import nothing but Python's library.
"""
