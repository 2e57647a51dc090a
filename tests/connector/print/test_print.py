"""Rows as lines: options, Flink's spelling of every type, kinds, and which stream."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.catalog.errors import DefinitionError, InputError, OptionError, UnsupportedError
from penstock.catalog.model.table import MetadataColumn, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import AvailableNow, OutputMode, Sink, SinkSettings
from penstock.connector.registry import connector_of
from tests.catalog.examples import columns, identifier


def print_table(types: dict[str, str] | None = None, **options: str) -> Table:
    given = {"connector": "print", **{key.replace("_", "-"): v for key, v in options.items()}}
    physical = columns(**(types or {"id": "INT", "name": "STRING"}))
    return Table(
        identifier=identifier("out"), schema=Schema(columns=physical), options=tuple(given.items())
    )


def sink_of(table: Table) -> Sink:
    connector = connector_of(table, project=Path("/"))
    connector.check(table)
    return connector.sink(table)


def test_every_change_may_be_printed() -> None:
    """A print table takes any query, and cannot be read."""
    assert sink_of(print_table()).capabilities.accepts is ChangelogMode.ALL
    with pytest.raises(UnsupportedError, match="cannot be read"):
        connector_of(print_table(), project=Path("/")).source(print_table())


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"print_identifer": "x"}, OptionError),
        ({"standard_error": "yes"}, OptionError),
        ({"sink.parallelism": "0"}, OptionError),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: dict[str, str], kind: type[InputError]
) -> None:
    """Before anything starts."""
    with pytest.raises(kind, match=r"default_database\.out"):
        sink_of(print_table(**options))


def test_metadata_cannot_be_printed() -> None:
    """There is none."""
    table = print_table()
    column = MetadataColumn(name="at", type=parse_type("TIMESTAMP_LTZ(3)"), key="timestamp")
    schema = Schema(columns=(*table.schema.columns, column))
    with pytest.raises(DefinitionError, match="has none"):
        sink_of(
            Table(identifier=table.identifier, schema=schema, options=(("connector", "print"),))
        )


VALUES = {
    "a": ("INT", "1", "1"),
    "b": ("STRING", "CAST(NULL AS STRING)", "null"),
    "c": ("BYTES", "X'48ff'", "x'48ff'"),
    "d": ("DECIMAL(10, 2)", "CAST(1.5 AS DECIMAL(10, 2))", "1.50"),
    "e": ("TIMESTAMP(3)", "TIMESTAMP_NTZ'2026-01-31 10:00:00'", "2026-01-31T10:00"),
    "f": ("TIMESTAMP(6)", "TIMESTAMP_NTZ'2026-01-31 10:00:01.12'", "2026-01-31T10:00:01.120"),
    "g": ("TIMESTAMP_LTZ(3)", "TIMESTAMP'2026-01-31 10:00:00+02:00'", "2026-01-31T08:00:00Z"),
    "h": ("ARRAY<INT>", "array(1, NULL)", "[1, null]"),
    "i": ("MAP<STRING, INT>", "map('k', 2)", "{k=2}"),
    "j": ("ROW<x INT, y ARRAY<STRING>>", "named_struct('x', 1, 'y', array('z'))", "+I[1, [z]]"),
    "k": ("ROW<x INT>", "CAST(NULL AS STRUCT<x: INT>)", "null"),
    "l": ("ARRAY<ROW<x INT>>", "array(named_struct('x', 3))", "[+I[3]]"),
    "m": ("MULTISET<STRING>", "map('k', 2)", "{k=2}"),
    "n": ("DATE", "DATE'2026-01-31'", "2026-01-31"),
    "p": ("BOOLEAN", "true", "true"),
    "q": ("DOUBLE", "CAST(0.1 AS DOUBLE)", "0.1"),
}


def test_every_type_is_spelled_as_flink_spells_it(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """`Row.toString` and java.time; the session's time zone shows in no instant."""
    table = print_table({name: kind for name, (kind, _, _) in VALUES.items()})
    text = ", ".join(f"{value} AS {name}" for name, (_, value, _) in VALUES.items())
    sink_of(table).write(spark.sql(f"SELECT {text}"))

    assert capsys.readouterr().out == f"+I[{', '.join(shown for _, _, shown in VALUES.values())}]\n"


def test_kinds_stand_before_rows_and_the_identifier_before_all(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns that the INSERT leaves out are null; lines go where the option says."""
    sink = sink_of(print_table(print_identifier="orders", standard_error="true"))
    frame = spark.range(4, numPartitions=1).selectExpr(
        "CAST(id AS INT) AS id", f"CAST(id AS TINYINT) AS {ROW_KIND}"
    )
    sink.write(frame)
    printed = capsys.readouterr()

    assert printed.out == ""
    assert printed.err.splitlines() == [
        f"orders> {kind}[{n}, null]" for n, kind in enumerate(("+I", "-U", "+U", "-D"))
    ]


@pytest.mark.parametrize(("output", "kind"), [(OutputMode.APPEND, "+I"), (OutputMode.UPDATE, "+U")])
def test_a_stream_is_printed_batch_after_batch(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    output: OutputMode,
    kind: str,
) -> None:
    """Rows of a query in update mode replace others, and say so."""
    spark.createDataFrame([(1, "a")], "id INT, name STRING").write.json(str(tmp_path / "in"))
    frame = spark.readStream.schema("id INT, name STRING").json(str(tmp_path / "in"))
    if output is OutputMode.UPDATE:
        frame = frame.groupBy("id").agg({"name": "max"}).toDF("id", "name")
    settings = SinkSettings(
        checkpoint=str(tmp_path / "checkpoint"),
        query_name="q",
        trigger=AvailableNow(),
        output=output,
    )
    sink_of(print_table()).start(frame, settings).awaitTermination()

    assert capsys.readouterr().out == f"{kind}[1, a]\n"
