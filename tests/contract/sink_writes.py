"""What every sink does to its target (`connector/contract.py`), as tests on Spark; a sink runs them with its context.

Rows are read again by the table's own source where there is one. What is special to one sink, such as its commit
point, is in its own tests.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import InputError, SinkError, StateMismatchError
from penstock.catalog.model.identifier import quoted
from penstock.catalog.model.table import PhysicalColumn, PrimaryKey, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.capabilities import TableEditor
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.contract import Guarantee, Sink, SourceKind, SplitSource
from penstock.connector.registry import connector_of
from penstock.connector.spark import internals
from penstock.connector.spark.types import spark_schema
from penstock.sql.errors.spark import translate
from tests.catalog.examples import identifier
from tests.connector.spark.micro_batches import micro_batch
from tests.connector.spark.task_files import write_by_tasks
from tests.contract.source import planned, read

__all__ = ["SinkWritesContract", "Target", "Written", "check_computed_once", "numbers"]

Row = tuple[Any, ...]
Change = tuple[RowKind, Row]

DEADLINE_S = 300.0

COLUMNS = {"id": "BIGINT", "name": "STRING"}

INSERT, BEFORE, AFTER, DELETE = RowKind

VALUES = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("-128Y", "127Y"),
    "SMALLINT": ("-32768S", "32767S"),
    "INT": ("-2147483648", "2147483647"),
    "BIGINT": ("-9223372036854775807L", "9223372036854775807L"),
    "FLOAT": ("CAST(0.1 AS FLOAT)", "CAST(-3.4e38 AS FLOAT)"),
    "DOUBLE": ("CAST(0.1 AS DOUBLE)", "CAST('1.7976931348623157E308' AS DOUBLE)"),
    "DECIMAL(38, 18)": (
        "CAST('12345678901234567890.123456789012345678' AS DECIMAL(38, 18))",
        "CAST('-0.000000000000000001' AS DECIMAL(38, 18))",
    ),
    "VARCHAR(20)": ("''", r"'\\N, \"a\"\n\tü'"),
    "STRING": ("'NULL'", "'🙂 {\"a\": 1}'"),
    "BYTES": ("X''", "X'00ff5c48'"),
    "DATE": ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    "TIMESTAMP(3)": (
        "TIMESTAMP_NTZ'1969-12-31 23:59:59.999'",
        "TIMESTAMP_NTZ'2026-03-29 02:30:00'",
    ),
    "TIMESTAMP(6)": (
        "TIMESTAMP_NTZ'2026-01-31 10:00:00.123456'",
        "TIMESTAMP_NTZ'1900-01-01 00:00:00'",
    ),
    "TIMESTAMP_LTZ(3)": (
        "TIMESTAMP'2026-01-31 10:00:00.123+02:00'",
        "TIMESTAMP'1969-12-31 23:59:59Z'",
    ),
    "ARRAY<INT>": ("array(1, NULL)", "array()"),
    "MAP<STRING, ROW<x INT>>": ("map('k', named_struct('x', 1))", "map('', NULL)"),
    "MULTISET<STRING>": ("map('k', 2)", "map()"),
    "ROW<x INT, y ARRAY<STRING>>": (
        "named_struct('x', 1, 'y', array('a', NULL))",
        "named_struct('x', NULL, 'y', NULL)",
    ),
}
"""Two values of each type, as Spark writes them; the third row of a test is NULL in every column but the key."""

NAMES = ("back`tick", "a.b", "two words", "it's", 'quo"te', "Upper", "select", "ä", "a,b", "(a)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kind of table, and what is made for one before Penstock knows it.

    `create` makes what has to be there for these columns, and returns options. `seen` returns the rows of `COLUMNS`
    that people see, for a table that has no source; `keeps`: rows stay at all. `types` and `names` are those that
    CREATE TABLE refuses. `by_tasks`: the tasks of a frame write its rows into files. `published`: Spark reads
    the rows, as the format is written only. `partitions` are its columns.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    create: Callable[[Schema], Mapping[str, str]] = lambda _: {}
    seen: Callable[[], Sequence[Row | Change]] | None = None
    keeps: bool = True
    types: Collection[str] = ()
    names: Collection[str] = ()
    by_tasks: bool = False
    published: bool = False
    partitions: tuple[str, ...] = ()

    def table(self, types: Mapping[str, str]) -> Table:
        """Declare a table of these columns; the target is not made yet."""
        columns = tuple(
            PhysicalColumn(
                name=name, type=parse_type(f"{text} NOT NULL" if name in self.key else text)
            )
            for name, text in types.items()
        )
        key = PrimaryKey(columns=self.key) if self.key else None
        schema = Schema(columns=columns, primary_key=key)
        return Table(
            identifier=identifier("orders"),
            schema=schema,
            options=tuple(self.options.items()),
            partition_keys=self.partitions,
        )

    @property
    def at_least_once(self) -> bool:
        """Whether rows of a batch that failed may be seen. Memory loses rows only with its process."""
        table = self.table(COLUMNS)
        guarantee = connector_of(table, project=Path("/")).sink(table).capabilities.guarantee
        return guarantee is Guarantee.AT_LEAST_ONCE

    @property
    def repeats(self) -> bool:
        """Whether rows may be there twice after a failure."""
        return self.at_least_once and not self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A table in a place of its own, written as runners of pipelines do."""

    spark: SparkSession
    target: Target
    table: Table
    folder: Path

    @classmethod
    def make(
        cls, spark: SparkSession, target: Target, folder: Path, types: Mapping[str, str] = COLUMNS
    ) -> Written:
        """Make the target, and prepare it as each start does: twice."""
        table = target.table(types)
        options = {**table.option_map, **target.create(table.schema)}
        table = replace(table, options=tuple(options.items()))
        written = cls(spark=spark, target=target, table=table, folder=folder)
        for _ in range(2):
            written.sink().prepare(spark, spark_schema(table.schema.physical))
        return written

    def sink(self) -> Sink:
        """A sink that remembers nothing, as that of a new process."""
        connector = connector_of(self.table, project=self.folder)
        connector.check(self.table)
        return connector.sink(self.table)

    def run(
        self, number: int, frame: DataFrame, *, sink: Sink | None = None, pipeline: str = "p"
    ) -> None:
        """Run a batch of a pipeline, with a new sink unless there is one, in the session of its frame."""
        batch = micro_batch(frame.sparkSession, self.folder / pipeline, number, query=pipeline)
        if self.target.by_tasks:
            write_by_tasks(sink or self.sink(), self.table, frame, batch)
        else:
            (sink or self.sink()).write_batch(frame, batch)

    def rows(self) -> list[Row]:
        """The rows that readers see now."""
        if self.target.seen is not None:
            found = self.target.seen()
        elif self.target.published:
            found = _read_published(self.spark, self.table, self.folder)
        else:
            found = _read(self.spark, self.table, self.folder)
        return _left(found, self.target.key, self.table)

    def check(self, *expected: Row) -> None:
        """Compare what readers see with what they should."""
        wanted = list(expected) if self.target.keeps else []
        found = Counter(map(repr, self.rows()))
        if self.target.repeats:
            assert set(found) == set(map(repr, wanted)), found
        else:
            assert found == Counter(map(repr, wanted)), found


def _read(spark: SparkSession, table: Table, folder: Path) -> Sequence[Row | Change]:
    source = connector_of(table, project=folder).source(table)
    names = tuple(column.name for column in table.schema.physical)
    match source.kind:
        case SourceKind.SPLITS:
            return _read_splits(source, names)
        case SourceKind.ENGINE | SourceKind.SNAPSHOT:
            frame = source.frame(spark, streaming=False)
            assert tuple(frame.columns) == names
            return [tuple(row.values()) for row in frame.toArrow().to_pylist()]


def _read_published(spark: SparkSession, table: Table, folder: Path) -> Sequence[Row]:
    published = connector_of(table, project=folder).publishable(table)
    relation = None if published is None else published.relation(spark)
    assert relation is not None, "`prepare` makes the folder"
    if not any(folder.rglob("part-*")):
        return []
    names = ", ".join(quoted(column.name) for column in table.schema.physical)
    frame = spark.sql(f"SELECT {names} FROM {relation.text}")
    return [tuple(row.values()) for row in frame.toArrow().to_pylist()]


def _read_splits(source: SplitSource, names: tuple[str, ...]) -> Sequence[Row | Change]:
    planner, ranges = planned(source)
    try:
        changes = source.changes is not ChangelogMode.INSERT_ONLY
        found = read(source, planner, (*names, ROW_KIND) if changes else names, ranges)
    finally:
        planner.close()
    rows = [row for _, rows in sorted(found.rows.items()) for row in rows]
    return [(RowKind(row[-1]), row[:-1]) for row in rows] if changes else rows


def _left(found: Sequence[Row | Change], key: Sequence[str], table: Table) -> list[Row]:
    """The rows that changes leave: the last of each key, or without a key those that were not taken back."""
    left: list[Row] = []
    places = [i for i, column in enumerate(table.schema.physical) if column.name in key]
    for each in found:
        kind, row = each if isinstance(each[0], RowKind) else (INSERT, each)
        if places:
            left = [other for other in left if any(other[i] != row[i] for i in places)]
        elif kind in (BEFORE, DELETE):
            left.remove(row)
        if kind in (INSERT, AFTER):
            left.append(row)
    return left


def numbers(spark: SparkSession, first: int, last: int, *, fails: bool = False) -> DataFrame:
    """Rows with ids in [first, last) in two tasks; `fails`: the last one cannot be computed."""
    name = "concat('n', id)"
    if fails:
        name = f"IF(id = {last - 1}, raise_error('half-way'), {name})"
    return spark.range(first, last, numPartitions=2).selectExpr("id", f"{name} AS name")


def named(*ids: int) -> list[Row]:
    """The rows of `numbers`."""
    return [(each, f"n{each}") for each in ids]


def changes(spark: SparkSession, *given: tuple[RowKind, int, str]) -> DataFrame:
    """Changes in their order."""
    rows = [(number, name, int(kind)) for kind, number, name in given]
    return spark.createDataFrame(rows, f"id BIGINT, name STRING, {ROW_KIND} TINYINT").coalesce(1)


def check_computed_once(written: Written, spark: SparkSession) -> None:
    """Check that each batch computes its rows once: a first one, the next, one that is there already, and changes."""
    computed = spark.sparkContext.accumulator(0)

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    sink, rows = written.sink(), numbers(spark, 0, 6)
    frames = [(0, rows), (1, rows), (1, rows)]
    if sink.capabilities.accepts is ChangelogMode.ALL:
        given = [(DELETE, n, f"n{n}") for n in range(3)] + [(AFTER, n, "x") for n in range(3, 6)]
        frames.append((2, changes(spark, *given)))
    for number, (batch, frame) in enumerate(frames, start=1):
        written.run(batch, internals.planned(frame.mapInArrow(counted, frame.schema)), sink=sink)

        assert computed.value == 6 * number


def together(*runs: Callable[[], None]) -> list[Exception]:
    """Run functions at the same moment, and return what they raise."""
    begin = threading.Barrier(len(runs))
    errors: list[Exception] = []

    def call(run: Callable[[], None]) -> None:
        begin.wait(DEADLINE_S)
        try:
            run()
        except Exception as error:  # noqa: BLE001  compared by the test
            errors.append(error)

    threads = [threading.Thread(target=call, args=(run,), daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "a runner waits for the other"
    return errors


class SinkWritesContract:
    """The suite. A subclass has a fixture `target`."""

    @pytest.fixture
    def target(self) -> Target:
        """The kind of table under test."""
        raise NotImplementedError

    @pytest.fixture
    def written(self, target: Target, spark: SparkSession, tmp_path: Path) -> Written:
        """A table of two columns."""
        return Written.make(spark, target, tmp_path)

    def test_a_batch_is_written_once_however_often_it_is_run(
        self, written: Written, spark: SparkSession
    ) -> None:
        """By the same process and by another; a batch without rows is one, too."""
        written.check()
        sink = written.sink()
        for _ in range(2):
            written.run(0, numbers(spark, 0, 0), sink=sink)
        for runner in (sink, sink, written.sink()):
            written.run(1, numbers(spark, 0, 4), sink=runner)
        written.run(2, numbers(spark, 4, 4))
        written.run(3, numbers(spark, 4, 6))

        written.check(*named(0, 1, 2, 3, 4, 5))

    def test_a_batch_that_fails_half_way_leaves_nothing_and_is_run_again(
        self, written: Written, spark: SparkSession
    ) -> None:
        """The reason is the query's own. One that writes at least once may show some of its rows."""
        sink = written.sink()
        written.run(0, numbers(spark, 0, 2), sink=sink)
        with pytest.raises(Exception, match="half-way"):
            written.run(1, numbers(spark, 2, 6, fails=True), sink=sink)
        if not written.target.at_least_once:
            written.check(*named(0, 1))
        written.run(1, numbers(spark, 2, 6), sink=sink)
        with pytest.raises(Exception, match="half-way"):
            written.sink().write(numbers(spark, 6, 8, fails=True))
        if not written.target.at_least_once:
            written.check(*named(*range(6)))
        written.sink().write(numbers(spark, 6, 8))

        written.check(*named(*range(8)))

    def test_rows_that_are_not_kept_are_computed_once(
        self, written: Written, spark: SparkSession
    ) -> None:
        """By a sink that says so of itself: a keyed query does not keep the changes of a batch for it."""
        if written.sink().capabilities.evaluates_once:
            check_computed_once(written, spark)

    def test_changes_leave_the_rows_that_they_say(
        self, written: Written, spark: SparkSession
    ) -> None:
        """Within a batch and between batches, once, where the sink takes all changes."""
        if written.sink().capabilities.accepts is not ChangelogMode.ALL:
            return
        first = [(INSERT, 1, "a"), (INSERT, 2, "b"), (INSERT, 3, "c")]
        first += [(BEFORE, 1, "a"), (AFTER, 1, "A"), (INSERT, 4, "d")]
        second = [(DELETE, 2, "b"), (INSERT, 2, "B"), (BEFORE, 3, "c"), (AFTER, 3, "C")]
        second += [(DELETE, 4, "d"), (INSERT, 5, "e"), (DELETE, 5, "e")]
        written.run(0, changes(spark, *first))
        for _ in range(1 if written.target.repeats else 2):
            written.run(1, changes(spark, *second))

        written.check((1, "A"), (2, "B"), (3, "C"))

    def test_every_value_comes_back_as_it_was(
        self, target: Target, spark: SparkSession, tmp_path: Path
    ) -> None:
        """Of every type that CREATE TABLE takes; NULL, too. Another type is refused with its column."""
        refused = {text for text in VALUES if _refuses(target, {"id": "BIGINT", "value": text})}
        types = {text: f"v{at}" for at, text in enumerate(VALUES) if text not in refused}
        columns = {"id": "BIGINT", **{name: text for text, name in types.items()}}
        written = Written.make(spark, target, tmp_path, columns)
        kinds = {
            field.name: field.dataType for field in spark_schema(written.table.schema.physical)
        }
        rows = []
        for at in range(3):
            values = (VALUES[text][at] if at < 2 else "NULL" for text in types)
            casts = (
                f"CAST({value} AS {kinds[name].simpleString()}) AS {name}"
                for value, name in zip(values, types.values(), strict=True)
            )
            rows.append(spark.sql(f"SELECT {at}L AS id, {', '.join(casts)}"))
        frame = rows[0].unionByName(rows[1]).unionByName(rows[2])
        written.run(0, frame)

        assert refused == set(target.types)
        if target.seen is None:
            written.check(*(tuple(row.values()) for row in frame.toArrow().to_pylist()))

    def test_every_name_of_a_column_is_written(
        self, target: Target, spark: SparkSession, tmp_path: Path
    ) -> None:
        """Whatever it has to be quoted for. Another name is refused, in its own words."""
        refused = {name for name in NAMES if _refuses(target, {"id": "BIGINT", name: "STRING"})}
        names = [name for name in NAMES if name not in refused]
        written = Written.make(
            spark, target, tmp_path, {"id": "BIGINT", **dict.fromkeys(names, "STRING")}
        )
        schema = spark_schema(written.table.schema.physical)
        written.run(0, spark.createDataFrame([(1, *names)], schema))

        assert refused == set(target.names)
        if target.seen is None:
            written.check((1, *names))

    def test_overwriting_replaces_all_rows_or_none(
        self, written: Written, spark: SparkSession
    ) -> None:
        """Where the kind of table can be overwritten."""
        editor = _editor(written)
        if editor is None:
            return
        written.run(0, numbers(spark, 0, 3))
        with pytest.raises(Exception, match="half-way"):
            editor.overwrite(numbers(spark, 5, 8, fails=True), {}, whole=True)
        written.check(*named(0, 1, 2))
        editor.overwrite(numbers(spark, 2, 5), {}, whole=True)
        written.check(*named(2, 3, 4))
        written.run(1, numbers(spark, 6, 8))
        written.check(*named(2, 3, 4, 6, 7))
        editor.overwrite(numbers(spark, 0, 0), {}, whole=True)

        written.check()

    def test_a_runner_that_wakes_up_behind_its_successor_changes_nothing(
        self, written: Written, spark: SparkSession
    ) -> None:
        """It is refused or passes over what is there, and its successor goes on."""
        paused, successor = written.sink(), written.sink()
        written.run(0, numbers(spark, 0, 2), sink=paused)
        written.run(1, numbers(spark, 2, 4), sink=successor)
        written.run(2, numbers(spark, 4, 6), sink=successor)
        errors = together(lambda: written.run(1, numbers(spark, 2, 4), sink=paused))
        written.run(3, numbers(spark, 6, 8), sink=successor)

        assert all(isinstance(translate(error), SinkError | StateMismatchError) for error in errors)
        written.check(*named(*range(8)))

    def test_two_runners_of_one_batch_write_it_once(
        self, written: Written, spark: SparkSession
    ) -> None:
        """One of them may be refused, and then the batch is run again."""
        written.run(0, numbers(spark, 0, 2))
        one, other = written.sink(), written.sink()
        here, there = spark.newSession(), spark.newSession()
        errors = together(
            lambda: written.run(1, numbers(here, 2, 6), sink=one),
            lambda: written.run(1, numbers(there, 2, 6), sink=other),
        )
        written.run(1, numbers(spark, 2, 6))
        written.run(2, numbers(spark, 6, 8))

        assert len(errors) < 2, errors
        written.check(*named(*range(8)))

    def test_two_pipelines_into_one_table_lose_no_row(
        self, written: Written, spark: SparkSession
    ) -> None:
        """One that is in the way of the other is run again, and each has its own numbers of batches."""
        here, there = spark.newSession(), spark.newSession()  # as each query has one
        runs = (
            lambda: written.run(0, numbers(here, 0, 4), pipeline="one"),
            lambda: written.run(0, numbers(there, 4, 8), pipeline="other"),
        )
        errors = together(*runs)
        for run in runs:
            run()

        assert len(errors) < 2, errors
        written.check(*named(*range(8)))


def _editor(written: Written) -> TableEditor | None:
    return connector_of(written.table, project=written.folder).editor(written.table)


def _refuses(target: Target, types: Mapping[str, str]) -> bool:
    """Whether CREATE TABLE refuses columns, which it has to do by the name of the last."""
    table = target.table(types)
    connector = connector_of(table, project=Path("/project"))
    refusal = None
    try:
        connector.check(table)
        connector.sink(table)
    except InputError as error:
        refusal = error.message
    assert refusal is None or list(types)[-1] in refusal.replace("``", "`")
    return refusal is not None
