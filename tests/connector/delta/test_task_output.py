"""Which Delta tables tasks write, and why Spark writes the others; by the log, or by the definition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.model.table import Table
from penstock.connector.delta.connector import DeltaConnector
from penstock.connector.delta.log import LogForm
from penstock.connector.delta.options import DeltaTarget
from penstock.connector.delta.task_output import FEATURES, task_output
from penstock.connector.expression import FieldValue
from penstock.connector.file_output import FileOutput, WrittenByEngine
from tests.connector.delta.tables import delta_table
from tests.connector.delta.test_definition import EVERY_TYPE
from tests.connector.spark.task_files import filled_columns

PLAIN = {"id": "BIGINT NOT NULL", "name": "VARCHAR(20)", "at": "TIMESTAMP(3)"}
LONG = {"type": "long", "nullable": True, "metadata": {}}


def declared(table: Table, project: Path = Path("/project")) -> FileOutput | WrittenByEngine:
    """What is decided for a table that is not there yet."""
    sink = DeltaConnector(project=project).sink(table)
    assert sink.task_writer is not None
    return sink.task_writer.output(filled_columns(table, table.schema.names))


def logged(
    *fields: dict[str, Any],
    features: list[str] | None = None,
    partitions: tuple[str, ...] = (),
    **properties: str,
) -> FileOutput | WrittenByEngine:
    """What is decided for a table as its log says, whose column id is filled."""
    schema = {"type": "struct", "fields": [{"name": "ID", **LONG}, *fields]}
    metadata = {
        "schemaString": json.dumps(schema),
        "partitionColumns": list(partitions),
        "configuration": {key.replace("__", "."): value for key, value in properties.items()},
    }
    version = 2 if features is None else 7
    protocol = {"minReaderVersion": 1, "minWriterVersion": version, "writerFeatures": features}
    table = delta_table(columns={"id": "BIGINT"})
    target = DeltaTarget(table=table, location="/orders")
    form = LogForm(metadata=metadata, protocol=protocol)
    return task_output(target, form, filled_columns(table, ("id",)))


def reason(found: FileOutput | WrittenByEngine) -> str:
    assert isinstance(found, WrittenByEngine), found
    return found.reason


def columns_of(found: FileOutput | WrittenByEngine) -> list[tuple[str, str | None, bool, bool]]:
    assert isinstance(found, FileOutput), found
    sources = [
        c.source.path[0] if isinstance(c.source, FieldValue) else None for c in found.columns
    ]
    return [
        (c.name, source, c.required, c.statistics)
        for c, source in zip(found.columns, sources, strict=True)
    ]


def test_a_plain_table_is_written_by_tasks() -> None:
    """Its columns in their order; types as files have them."""
    found = declared(delta_table(columns=PLAIN))

    assert columns_of(found) == [
        ("id", "id", True, True),
        ("name", "name", False, True),
        ("at", "at", False, True),
    ]
    assert isinstance(found, FileOutput)
    assert [str(column.type) for column in found.columns] == ["BIGINT", "STRING", "TIMESTAMP(6)"]
    assert (found.folder, found.shown) == ("/project/orders", "the Delta table at /project/orders")


@pytest.mark.parametrize(
    "kind", sorted({kind.removesuffix(" NOT NULL") for kind in EVERY_TYPE.values()})
)
def test_every_type_is_written_but_rows_that_forbid_null_in_a_field(kind: str) -> None:
    """Delta's writer checks fields; what is in collections it does not."""
    found = declared(delta_table(columns={"id": "BIGINT", "v": kind}))

    if kind.startswith("ROW"):
        assert reason(found) == "column v: a part of it is NOT NULL"
    else:
        assert isinstance(found, FileOutput), found


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (
            delta_table(columns={**PLAIN, "part": "DOUBLE"}, partition_keys=("part",)),
            "the table is partitioned by column part of type DOUBLE",
        ),
        (delta_table(columns=PLAIN, key=("id",)), "rows are replaced by the PRIMARY KEY"),
        (
            delta_table(columns=PLAIN, options={"sink.target-file-size": "64 mb"}),
            "'sink.target-file-size' gathers small files",
        ),
        (
            delta_table(columns=PLAIN, options={"clustering.columns": "id"}),
            "the table is clustered",
        ),
        (
            delta_table("s3a://bucket/orders", columns=PLAIN),
            "tasks write into folders of this machine alone",
        ),
        (
            delta_table(columns=PLAIN, options={"delta.columnMapping.mode": "name"}),
            "the table has the property delta.columnmapping.mode = name",
        ),
        (
            delta_table(columns=PLAIN, options={"delta.parquet.compression.codec": "zstd"}),
            "the table has the property delta.parquet.compression.codec = zstd",
        ),
        (
            delta_table(columns=PLAIN, options={"delta.feature.rowTracking": "supported"}),
            "the table has the property delta.feature.rowtracking = supported",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_that_asks_for_more_is_written_by_spark(table: Table, why: str) -> None:
    """By its definition already, with the reason that EXPLAIN shows."""
    assert reason(declared(table)) == why


@pytest.mark.parametrize(
    "options",
    [
        {"delta.appendOnly": "true"},
        {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"},
        {"delta.autoOptimize.autoCompact": "true", "delta.autoOptimize.optimizeWrite": "false"},
        {"delta.feature.timestampNtz": "supported", "delta.columnMapping.mode": "none"},
        {"sink.optimize.interval": "1 h", "sink.schema-evolution": "add-columns"},
    ],
)
def test_what_asks_nothing_of_the_files_of_an_append_changes_nothing(
    options: dict[str, str],
) -> None:
    """Neither do options of the sink that work behind a commit."""
    assert isinstance(declared(delta_table(columns=PLAIN, options=options)), FileOutput)


def test_the_log_has_the_last_word(tmp_path: Path) -> None:
    """On names, order, columns that are not declared, and NOT NULL."""
    found = logged({**LONG, "name": "more", "nullable": False})

    assert columns_of(found) == [("ID", "id", False, True), ("more", None, True, True)]
    log = tmp_path / "orders" / "_delta_log"
    log.mkdir(parents=True)
    fields = [{"name": "Id", **LONG}, {"name": "Day", **LONG, "type": "date"}]
    meta = {
        "id": "x",
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["Day"],
    }
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": meta}]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    found = declared(delta_table(columns={"id": "BIGINT"}), tmp_path)

    assert columns_of(found) == [("Id", "id", False, True), ("Day", None, False, False)]
    assert isinstance(found, FileOutput)
    assert found.partitions == ("Day",)


def test_partition_columns_are_named_as_the_table_has_them_and_are_in_no_file() -> None:
    """They have no statistics, and count for none."""
    table = delta_table(columns=PLAIN, partition_keys=("at", "name"))
    found = declared(table)
    many = logged(
        {**LONG, "name": "P"},
        *({**LONG, "name": f"c{at}"} for at in range(40)),
        partitions=("P",),
        delta__dataSkippingNumIndexedCols="3",
    )

    assert isinstance(found, FileOutput)
    assert found.partitions == ("at", "name")
    assert [column.name for column in found.in_files] == ["id"]
    assert [name for name, _, _, statistics in columns_of(many) if statistics] == ["ID", "c0", "c1"]


@pytest.mark.parametrize(
    ("fields", "given", "why"),
    [
        (
            [],
            {"partitions": ("ID",)},
            "the table has no column but those it is partitioned by",
        ),
        (
            [{**LONG, "name": "b", "type": "binary"}],
            {"partitions": ("b",)},
            "the table is partitioned by column b of type BYTES",
        ),
        (
            [{**LONG, "name": "g", "metadata": {"delta.generationExpression": "id * 2"}}],
            {"partitions": ("g",)},
            "column g: g has the property delta.generationExpression",
        ),
        (
            [{**LONG, "name": "p"}],
            {"partitions": ("p",), "delta__dataSkippingStatsColumns": "p"},
            "'delta.dataSkippingStatsColumns' names more than whole columns",
        ),
        ([], {"features": ["clustering"]}, "the table is clustered"),
        ([], {"features": ["rowTracking"]}, "the table has the feature rowTracking"),
        ([], {"features": ["icebergCompatV2"]}, "the table has the feature icebergCompatV2"),
        ([], {"features": ["catalogManaged"]}, "the table has the feature catalogManaged"),
        (
            [],
            {"delta__constraints__positive": "id > 0"},
            "the table has the CHECK constraint positive",
        ),
        (
            [],
            {"delta__universalFormat__enabledFormats": "iceberg"},
            "the table has the property delta.universalformat.enabledformats = iceberg",
        ),
        (
            [],
            {"delta__autoOptimize__optimizeWrite": "true"},
            "the table has the property delta.autooptimize.optimizewrite = true",
        ),
        (
            [{**LONG, "name": "g", "metadata": {"delta.generationExpression": "id * 2"}}],
            {},
            "column g: g has the property delta.generationExpression",
        ),
        (
            [{**LONG, "name": "d", "metadata": {"CURRENT_DEFAULT": "7"}}],
            {},
            "column d: d has the property CURRENT_DEFAULT",
        ),
        (
            [
                {
                    "name": "r",
                    "nullable": True,
                    "metadata": {},
                    "type": {
                        "type": "struct",
                        "fields": [{**LONG, "name": "x", "nullable": False}],
                    },
                }
            ],
            {},
            "column r: a part of it is NOT NULL",
        ),
        (
            [
                {
                    "name": "a",
                    "nullable": True,
                    "metadata": {},
                    "type": {"type": "array", "elementType": "long", "containsNull": False},
                }
            ],
            {},
            "column a: a part of it is NOT NULL",
        ),
    ],
)
def test_a_table_with_more_in_its_log_is_written_by_spark(
    fields: list[dict[str, Any]], given: dict[str, Any], why: str
) -> None:
    """Whatever is not known to ask nothing of an append."""
    assert reason(logged(*fields, **given)) == why


def test_a_type_that_is_not_known_here_is_written_by_spark() -> None:
    """Such as VARIANT, and TIME."""
    variant = logged({**LONG, "name": "v", "type": "variant"})
    time = logged({**LONG, "name": "v", "type": "time(6)"})

    assert "variant" in reason(variant)
    assert reason(time) == "column v is of type TIME(6)"


def test_a_column_of_another_type_is_cast_by_spark() -> None:
    """A length or a precision is none."""
    table = delta_table(columns={"id": "INT"})
    target = DeltaTarget(table=delta_table(columns={"id": "BIGINT"}), location="/orders")

    found = task_output(target, None, filled_columns(table, ("id",)))
    assert reason(found) == "column id is cast from INT to BIGINT"


def test_every_feature_of_the_list_is_taken() -> None:
    """Where nothing in the table uses it."""
    assert columns_of(logged(features=sorted(FEATURES))) == [("ID", "id", False, True)]


@pytest.mark.parametrize(
    ("properties", "indexed"),
    [
        ({}, ["ID", *(f"c{at}" for at in range(30))]),
        ({"delta__dataSkippingNumIndexedCols": "3"}, ["ID", "c0"]),
        ({"delta__dataSkippingNumIndexedCols": "-1"}, ["ID", *(f"c{at}" for at in range(40))]),
        ({"delta__dataSkippingNumIndexedCols": "0"}, []),
        ({"delta__dataSkippingStatsColumns": "c5, id"}, ["ID", "c5"]),
    ],
)
def test_columns_with_statistics_are_those_that_the_table_says(
    properties: dict[str, str], indexed: list[str]
) -> None:
    """Fields of a row are counted one by one."""
    pair = {"type": "struct", "fields": [{**LONG, "name": "x"}, {**LONG, "name": "y"}]}
    fields = [{**LONG, "name": f"c{at}"} for at in range(40)]
    fields[0] = {**fields[0], "type": pair}
    found = logged(*fields, **properties)

    assert [name for name, _, _, statistics in columns_of(found) if statistics] == indexed


def test_statistics_of_single_fields_are_left_to_spark() -> None:
    """The property may name them."""
    found = logged(delta__dataSkippingStatsColumns="r.x")
    assert reason(found) == "'delta.dataSkippingStatsColumns' names more than whole columns"
