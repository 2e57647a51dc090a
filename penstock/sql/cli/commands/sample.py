"""The deepest level of `penstock validate`: rows of every query on the screen, sinks untouched."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.catalog.errors import InputError
from penstock.sql.cli.output.report import print_lines, print_rows
from penstock.sql.cli.spark import open_spark, spark_logs
from penstock.sql.runner.replay import queries_of, sample
from penstock.sql.spark_process.jvm import end_jvm

if TYPE_CHECKING:
    from penstock.sql.cli.commands.script_input import ScriptInput
    from penstock.sql.runner.replay import Replayed

__all__ = ["show_samples"]


def show_samples(
    script: ScriptInput, statements: Iterable[Replayed], *, rows: int, verbose: bool
) -> None:
    """Start Spark and show rows of every query. Raises the error of the first one that fails."""
    files = spark_logs(script.project, verbose=verbose)
    spark = None
    try:
        for one in statements:
            for query in queries_of(one):
                spark = spark or open_spark(script.master, script.spark_conf, files)
                try:
                    found = sample(query, one.planner, spark, rows=rows)
                except InputError as error:
                    error.span = error.span or query.select.span
                    raise
                count = len(found.rows)
                more = "the first " if found.truncated else ""
                print_lines([f"{query.title}: {more}{count} row{'' if count == 1 else 's'}"])
                if found.rows:
                    print_rows(found)
    finally:
        if spark is not None:
            end_jvm()
