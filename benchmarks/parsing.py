"""What it costs to check files of 100, 1,000 and 10,000 statements: cutting, parsing, and all that needs no JVM.

    python -m benchmarks.parsing [--statements 100 1000 10000] [--profile]

A file is tables, views and INSERTs with windows and joins, in equal parts. The cost of a statement must not grow with
the file; a file of 1,000 statements is to be checked in less than two seconds.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable

from penstock.catalog.names import Namespace
from penstock.catalog.store import SqlCatalog
from penstock.sql.lower import parse_script
from penstock.sql.script import Source, split_all
from penstock.sql.syntax import parse_tree

KINDS = (
    """CREATE TABLE orders_{n} (
  id BIGINT, customer STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3), lines ARRAY<ROW<sku STRING, n INT>>,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'orders_{n}', 'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'json')""",
    "CREATE TABLE totals_{n} (customer STRING, total DECIMAL(38, 2)) WITH ('connector' = 'delta', 'path' = 't{n}')",
    """CREATE VIEW big_{n} AS SELECT id, customer, amount * 2 AS twice FROM orders_{n}
  WHERE amount > 100 AND id IS NOT NULL""",
    """INSERT INTO totals_{n} SELECT customer, SUM(amount) FROM TABLE(TUMBLE(TABLE orders_{n}, DESCRIPTOR(ts),
  INTERVAL '10' MINUTE)) GROUP BY customer, window_start, window_end""",
    """INSERT INTO totals_{n} SELECT a.customer, CAST(b.twice AS DECIMAL(38, 2)) FROM orders_{n} AS a
  JOIN big_{n} AS b ON a.id = b.id WHERE CASE WHEN a.amount > 5 THEN TRUE ELSE a.customer LIKE 'x%' END""",
)
SIZES = (100, 1_000, 10_000)


def file_of(statements: int) -> str:
    """A file of that many statements."""
    each = len(KINDS)
    return ";\n".join(KINDS[n % each].format(n=n // each) for n in range(statements)) + ";\n"


def seconds(work: Callable[[], object]) -> float:
    """Seconds of CPU time that one run takes: it does not wait for anything."""
    began = time.process_time()
    work()
    return time.process_time() - began


def parse_all(text: str) -> None:
    """Cut a file and parse its statements."""
    statements, error = split_all(Source(file="benchmark.sql", text=text))
    assert error is None
    for one in statements:
        parse_tree(one)


def check_all(text: str) -> None:
    """All static checks of a file, names and types included."""
    parse_script(text, "benchmark.sql", Namespace(SqlCatalog("sqlite://")))


def main() -> None:
    """Print a table; with --profile, where the time of the largest file goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, nargs="+", default=SIZES)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    check_all(file_of(len(KINDS)))  # imports and caches are not what is measured
    print("| statements | cut, s | parse, ms each | check, s | check, ms each |")
    print("|---:|---:|---:|---:|---:|")
    for size in options.statements:
        text = file_of(size)
        cut = seconds(lambda text=text: split_all(Source(file="benchmark.sql", text=text)))
        parse = seconds(lambda text=text: parse_all(text))
        check = seconds(lambda text=text: check_all(text))
        print(
            f"| {size:,} | {cut:.2f} | {parse / size * 1e3:.2f} | {check:.2f} | {check / size * 1e3:.2f} |"
        )
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(check_all, file_of(max(options.statements)))
        pstats.Stats(profile).sort_stats("cumulative").print_stats(40)


if __name__ == "__main__":
    main()
