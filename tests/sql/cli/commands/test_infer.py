"""`penstock catalog infer`: what it prints is SQL that `penstock validate` takes and `penstock peek` reads."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from tests.sql.cli.live_tables import commands, define

WITHOUT_SPARK = """
import sys
from penstock.sql.cli.commands.app import app
try:
    app(sys.argv[1:])
finally:
    assert "pyspark" not in sys.modules
"""


@pytest.fixture
def penstock(project):
    """Runs a command in an empty project."""
    return commands()


def infer(penstock, project, *arguments):
    """Infer a table; gives its SQL, which is right, and defines it."""
    result = penstock("catalog", "infer", *arguments)
    assert result.exit_code == 0, result.stderr
    (project / "t.sql").write_text(result.stdout)
    checked = penstock("validate", "t.sql")
    assert checked.exit_code == 0, checked.stdout
    return result.stdout


def order(number, **more):
    """Make a record."""
    return {"id": number, "ts": f"2026-01-01T00:00:{number:02}Z", "{{ x": "it's", **more}


def write_lines(file, records):
    """Write a file of JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(record) + "\n" for record in records).encode()
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)


def rows_of(penstock, project, sql, table):
    """Define a table and peek into it."""
    define(project, sql.replace("{{ '{{' }}", "{{"))
    peeked = penstock("peek", table, "--format", "json", "--limit", "5")
    assert peeked.exit_code == 0, peeked.stderr
    return [json.loads(line) for line in peeked.stdout.splitlines()]


def test_files_of_json_give_a_table_that_reads_them(penstock, project):
    """Packed ones too; folders of partitions are columns; Spark is not loaded."""
    write_lines(project / "data/day=1/a.json", [order(1), order(2)])
    write_lines(project / "data/day=2/b.json.gz", [order(3)])
    sql = infer(penstock, project, "data", "--name", "orders")
    rows = rows_of(penstock, project, sql, "orders")
    command = [sys.executable, "-c", WITHOUT_SPARK, "catalog", "infer", "data"]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
    assert "PARTITIONED BY (`day`)" in sql
    assert "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND" in sql
    assert sorted((row["id"], row["day"], row["{{ x"]) for row in rows) == [
        (1, 1, "it's"),
        (2, 1, "it's"),
        (3, 2, "it's"),
    ]


def test_a_pattern_chooses_among_files(penstock, project):
    """As the table's own option does."""
    write_lines(project / "data/a.json", [order(1)])
    (project / "data/b.txt").write_text("text")
    sql = infer(penstock, project, "data/*.json", "--name", "orders")
    rows = rows_of(penstock, project, sql, "orders")

    assert "'source.path.regex-pattern' = '.*/.*[.]json'" in sql
    assert [row["id"] for row in rows] == [1]


TYPED = pa.table(
    {
        "id": pa.array([1], pa.int64()),
        "small": pa.array([1], pa.uint8()),
        "at": pa.array([0], pa.timestamp("ms", tz="UTC")),
        "tags": pa.array([["a"]], pa.list_(pa.string())),
        "row": pa.array([{"x": 1.5}], pa.struct([("x", pa.float64())])),
    }
)


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_footers_give_types_and_it_is_said_that_such_files_are_only_written(
    penstock, project, kind
):
    """ORC has no unsigned numbers."""
    table = TYPED.drop_columns("small") if kind == "orc" else TYPED
    (parquet.write_table if kind == "parquet" else orc.write_table)(table, f"x.{kind}")
    sql = infer(penstock, project, f"x.{kind}")

    assert "CREATE TABLE x (" in sql
    assert "ARRAY<STRING>" in sql
    assert "`row` ROW<`x` DOUBLE>" in " ".join(sql.split())
    assert "not read yet" in sql


def test_delimited_text_gives_its_columns(penstock, project):
    """By its header, with its delimiter."""
    (project / "x.csv").write_text("id;day;amount\n1;2026-01-01;1.5\n2;2026-01-02;2.5\n")
    sql = " ".join(infer(penstock, project, "x.csv").split())

    assert "id BIGINT, -- int64 in the file `day` DATE," in sql
    assert "'csv.field-delimiter' = ';'" in sql


def test_a_delta_table_is_read_from_its_log(penstock, project):
    """Comments, NOT NULL, partitioning; by its scheme or by what its folder holds."""
    fields = [
        {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "it's the key"}},
        {"name": "day", "type": "date", "nullable": True, "metadata": {}},
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    action = {
        "metaData": {"schemaString": schema, "partitionColumns": ["day"], "configuration": {}}
    }
    write_lines(project / "lake/_delta_log/00000000000000000000.json", [action])
    sql = infer(penstock, project, "lake")

    assert infer(penstock, project, "delta:lake") == sql
    assert "id    BIGINT NOT NULL COMMENT 'it''s the key'" in sql
    assert "PARTITIONED BY (`day`)" in sql


def test_json_output_holds_the_sql_and_its_parts(penstock, project):
    """One document."""
    write_lines(project / "orders.json", [order(1)])
    result = penstock("catalog", "infer", "orders.json", "--output-format", "json")
    document = json.loads(result.stdout)

    assert document["name"] == "orders"
    assert document["sql"].endswith(");")
    assert document["watermark"]["column"] == "ts"
    assert document["columns"][0]["type"] == "BIGINT"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ["nowhere"],
            "there is no folder or file",
            "check the path, which is relative to the project",
        ),
        (["kafka://orders"], "it is not said where topic 'orders' is", "--bootstrap-servers"),
        (["x.json", "--format", "jsonn"], "there is no format 'jsonn'", "did you mean 'json'"),
        (["kafka://h:1/t", "--format", "csv"], "not read from topics", "raw keeps records"),
        (["kafka://h:1/a%20b"], "'a b' cannot be the name of a Kafka topic", "letters, digits"),
        (["delta:x", "--format", "json"], "the schema is known", "leave it out"),
        (["kafak://h:1/t"], "of the kind 'kafak' is not known", "did you mean 'kafka'"),
        (["delta:nowhere"], "there is no Delta table", "_delta_log"),
        (["x.bin"], "do not say one format", "--format"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(penstock, project, arguments, message, hint):
    """Status 2, and nothing on stdout that could end up in a file."""
    (project / "x.bin").write_bytes(b"\xff")
    result = penstock("catalog", "infer", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert hint in result.stderr


# --- on a broker ---


def test_a_topic_gives_a_table_that_reads_it(kafka, topic, penstock, project):
    """Its newest records, of every partition; offsets without records are passed; no group is joined."""
    name = topic(partitions=2)
    kafka.produce_json(
        name, [order(n) for n in range(40)], partition=0, keys=[f"k{n}" for n in range(40)]
    )
    kafka.transaction(name, [json.dumps(order(5, gone=1))] * 30, partition=0, commit=False)
    kafka.produce(name, [json.dumps(order(9)), "{broken"], partition=1, keys=["k9", "kx"])
    location = f"kafka://{kafka.bootstrap}/{name}"
    sql = infer(penstock, project, location, "--sample", "20", "--name", "orders")
    rows = rows_of(penstock, project, sql, "orders")

    assert "20 records, the newest of 2 partitions" in sql
    assert "1 of 20 records (partition 1, offset 1: " in sql
    assert "whole numbers, 9 to 39" in sql
    assert "gone" not in sql
    assert "'key.format' = 'raw'" in sql
    assert {row["record_key"] for row in rows} <= {f"k{n}" for n in range(40)}
    assert kafka.committed("penstock", name, [0, 1]) == {}


def test_a_topic_that_is_missing_or_empty_is_told(kafka, topic, penstock, project):
    """With the nearest name."""
    name = topic("the-orders-of-infer")
    empty = penstock("catalog", "infer", f"kafka://{name}", "--bootstrap-servers", kafka.bootstrap)
    missing = penstock("catalog", "infer", f"kafka://{kafka.bootstrap}/the-order-of-infer")

    assert (empty.exit_code, missing.exit_code) == (2, 2)
    assert "is empty" in empty.stderr
    assert "did you mean 'the-orders-of-infer'" in missing.stderr
