"""`penstock dlq` as far as it needs no Spark: its options, and how counts and letters are written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from deltalake import write_deltalake

from penstock.catalog.errors import UnknownObjectError
from penstock.connector.arrow import arrow_schema
from penstock.connector.dead_letters.table import DeadLetterCount, define_dead_letter_table
from penstock.connector.options.bad_records import BesideCheckpoint
from penstock.sql.cli.commands.app import app
from penstock.sql.cli.commands.dlq import Variables, check_known, pipelines_of
from penstock.sql.cli.output.dead_letter_text import (
    counts_document,
    counts_lines,
    letter_document,
    letter_lines,
)
from tests.sql.cli.command_runner import CommandRunner

LETTER: dict[str, Any] = {
    "table": "default_catalog.default_database.orders",
    "pipeline": "job/kept",
    "topic": "orders",
    "partition": 2,
    "offset": 12,
    "path": None,
    "position": None,
    "timestamp": datetime(2026, 1, 2, tzinfo=UTC),
    "key": bytearray(b"k\n1"),
    "value": bytearray(b"\xff\x00"),
    "headers": [{"key": "h", "value": bytearray(b"\xfe")}, {"key": "h", "value": None}],
    "stage": "value",
    "error": "it is not valid JSON",
    "replayed": True,
}
OF_FILE = {
    **LETTER,
    "topic": None,
    "path": "/in/a.json",
    "position": 40,
    "timestamp": None,
    "key": None,
    "value": b"{",
    "replayed": False,
}


def dlq(*arguments: str) -> Result:
    """Run a command."""
    return CommandRunner(env={"COLUMNS": "200"}).invoke(app, ["dlq", *arguments])


@pytest.mark.parametrize("command", ["ls", "show", "replay"])
def test_a_file_and_a_pipeline_are_not_named_together(command: str, project: Path) -> None:
    """Refused before Spark starts."""
    (project / "orders.sql").touch()
    refused = dlq(command, "orders.sql", "--pipeline", "orders")

    assert refused.exit_code == 2
    assert "both name a pipeline" in refused.stderr


def test_a_file_that_is_not_there_is_named(project: Path) -> None:
    """Before Spark starts."""
    refused = dlq("ls", "nowhere.sql")

    assert refused.exit_code == 2
    assert "nowhere.sql cannot be read" in refused.stderr


def test_a_letter_is_text_where_it_can_be() -> None:
    """Else base64 under another name, so that nobody takes it for the text."""
    letter = letter_document(LETTER)

    assert (letter["key"], letter["value_base64"]) == ("k\n1", "/wA=")
    assert "value" not in letter
    assert letter["headers"] == [{"key": "h", "value_base64": "/g=="}, {"key": "h", "value": None}]


def test_times_of_letters_are_instants() -> None:
    """Spark gives those of its rows in the zone of the machine, without a zone."""
    there = datetime(2026, 1, 2, 3, tzinfo=UTC)
    here = there.astimezone().replace(tzinfo=None)

    assert letter_document({**LETTER, "timestamp": here})["timestamp"] == "2026-01-02T03:00:00.000Z"
    assert letter_document(LETTER)["timestamp"] == "2026-01-02T00:00:00.000Z"


def test_a_letter_in_lines_says_where_when_why_and_what() -> None:
    """Of Kafka, or of a file; a line stays a line."""
    assert letter_lines(letter_document(LETTER)) == [
        "orders, partition 2, offset 12, of 2026-01-02T00:00:00.000Z, for orders in job/kept, replayed",
        "  value: it is not valid JSON",
        "  key: k\\n1",
        "  value in base64: /wA=",
    ]
    assert letter_lines(letter_document(OF_FILE)) == [
        "/in/a.json, byte 40, for orders in job/kept",
        "  value: it is not valid JSON",
        "  value: {",
    ]


def test_counts_are_added_up_for_each_place() -> None:
    """With a line for each kind of error."""
    count = DeadLetterCount(
        table="c.d.orders", pipeline="p/kept", stage="key", error="bad", letters=1500, replayed=2
    )
    other = DeadLetterCount(
        table="c.d.orders", pipeline="p/kept", stage="value", error="worse", letters=1, replayed=0
    )
    (place,) = counts_document([("/letters", [count, other])])["places"]

    assert (place["path"], place["letters"], place["replayed"]) == ("/letters", 1501, 2)
    assert [error["error"] for error in place["errors"]] == ["bad", "worse"]
    assert counts_lines([("/letters", [count, other])]) == [
        "/letters: 1,501 dead letters",
        "  1,500 of c.d.orders in p/kept: key: bad, 2 replayed",
        "  1 of c.d.orders in p/kept: value: worse",
    ]


SQL = """
CREATE TABLE src (a BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE o (a BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT a FROM src;
"""


@pytest.mark.parametrize(
    ("settings", "before", "names"),
    [
        ("", "", ("orders",)),
        ('[settings]\n"pipeline.name" = "shop"\n', "", ("shop",)),
        ("", "SET 'pipeline.name' = 'mine';", ("mine",)),
        (
            "",
            "SET 'pipeline.name' = '{{ var('name', 'x') }}';" + SQL[SQL.index("INSERT") :],
            ("x",),
        ),
    ],
)
def test_a_file_names_the_pipelines_that_its_run_has(
    project: Path, settings: str, before: str, names: tuple[str, ...]
) -> None:
    """By SET, else by penstock.toml, else by the file's name."""
    (project / "penstock.toml").write_text(settings)
    head, tail = SQL.split("INSERT")
    (project / "orders.sql").write_text(f"{head}{before}INSERT{tail}")
    nothing = Variables(var=None, vars_file=None, settings=None, target=None)

    found, _ = pipelines_of(Path("orders.sql"), nothing, None)

    assert found == names


def test_a_pipeline_that_is_not_known_is_refused_with_those_that_are() -> None:
    """By its own name, or by that of one of its queries."""
    check_known("job", ["job", "walk"])
    check_known("job/kept", ["job", "walk"])

    with pytest.raises(UnknownObjectError, match="'shop'") as caught:
        check_known("shop", ["job", "walk"])

    assert caught.value.hint == "known are job, walk"


@pytest.fixture
def letters(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two dead letters of the pipeline `job`; and nobody starts Spark."""
    monkeypatch.setattr("penstock.sql.cli.spark.open_spark", lambda *_, **__: pytest.fail("Spark"))
    folder = project / ".penstock" / "checkpoints" / "job" / "kept"
    (folder / "penstock-identity").mkdir(parents=True)
    schema = arrow_schema(
        (column.name, column.type)
        for column in define_dead_letter_table(BesideCheckpoint(), "x").schema.physical
    )
    rows = [
        {
            **dict.fromkeys(schema.names),
            **LETTER,
            "batch_id": 1,
            "offset": n,
            "left_out_at": LETTER["timestamp"],
        }
        for n in (1, 2)
    ]
    kept = [{name: row[name] for name in schema.names} for row in rows]
    write_deltalake(str(folder / "dead-letters"), pa.Table.from_pylist(kept, schema))
    return folder


def test_letters_in_folders_are_looked_at_without_spark(letters: Path) -> None:
    """Counted and shown, for people and for programs."""
    counted = dlq("ls", "--pipeline", "job", "--format", "json")
    shown = dlq("show", "--limit", "1")

    assert counted.exit_code == 0, counted.output
    assert json.loads(counted.stdout)["places"][0]["letters"] == 2
    assert json.loads(counted.stdout)["places"][0]["path"] == str(letters / "dead-letters")
    assert "orders, partition 2, offset 2, of 2026-01-02T00:00:00.000Z" in shown.stdout


def test_the_letters_of_an_unknown_pipeline_are_refused(letters: Path) -> None:
    """With those that are known; of a file that never ran there are none."""
    refused = dlq("ls", "--pipeline", "jobb")
    (letters.parents[3] / "other.sql").write_text(SQL)

    assert (refused.exit_code, "'job'" in refused.stderr) == (2, True)
    assert "there are no dead letters" in dlq("ls", "other.sql").stderr
