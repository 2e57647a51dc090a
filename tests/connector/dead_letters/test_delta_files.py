"""Dead letters of a Delta table read without an engine: which of their columns, and whose records."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.connector.arrow import arrow_schema
from penstock.connector.dead_letters.delta_files import DeadLetterFiles
from penstock.connector.dead_letters.table import (
    REPLAYED_SUFFIX,
    define_dead_letter_table,
    define_replay_table,
)
from penstock.connector.delta.files.live_rows import LiveRows
from penstock.connector.options.bad_records import BesideCheckpoint

BASE = datetime(2026, 1, 2, tzinfo=UTC)
RECORD = {"key", "value", "headers"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Letters 0 to 29, of the tables `orders` and `visits` in turn; a higher number was left out later."""
    table = define_dead_letter_table(BesideCheckpoint(), "x")
    schema = arrow_schema((column.name, column.type) for column in table.schema.physical)
    rows = [dict.fromkeys(schema.names) | letter(number) for number in range(30)]
    write_deltalake(str(tmp_path / "letters"), pa.Table.from_pylist(rows, schema))
    return str(tmp_path / "letters")


def letter(number: int) -> dict[str, object]:
    """A letter of this offset."""
    return {
        "table": "visits" if number % 2 else "orders",
        "pipeline": "shop/t",
        "batch_id": 1,
        "topic": "t",
        "partition": 0,
        "offset": number,
        "value": b"{%d" % number,
        "stage": "value",
        "error": f"it is not valid JSON: {number}",
        "left_out_at": BASE + timedelta(seconds=number),
    }


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[frozenset[str], int | None]]:
    """The columns of each reading, and how many rows were picked; None of those that read all."""
    found: list[tuple[frozenset[str], int | None]] = []
    batches, pick = LiveRows.batches, LiveRows.pick

    def all_rows(rows: LiveRows, columns: Sequence[str]) -> Iterator[Any]:
        found.append((frozenset(columns), None))
        return batches(rows, columns)

    def some(rows: LiveRows, columns: Sequence[str], positions: Collection[Any]) -> Iterator[Any]:
        found.append((frozenset(columns), len(positions)))
        return pick(rows, columns, positions)

    monkeypatch.setattr(LiveRows, "batches", all_rows)
    monkeypatch.setattr(LiveRows, "pick", some)
    return found


def test_letters_are_counted_by_four_columns(
    path: str, reads: list[tuple[frozenset[str], int | None]]
) -> None:
    """Where none was given back: the position of a record is of no use there."""
    counts = DeadLetterFiles(path=path).counts()

    assert [(each.table, each.letters, each.replayed) for each in counts] == [
        ("orders", 15, 0),
        ("visits", 15, 0),
    ]
    assert reads == [(frozenset({"table", "pipeline", "stage", "error"}), None)]


def test_records_are_read_of_the_newest_letters_only(
    path: str, reads: list[tuple[frozenset[str], int | None]]
) -> None:
    """Of one table or of all; without a limit all are."""
    files = DeadLetterFiles(path=path)

    assert [row["offset"] for row in files.newest(3)] == [29, 28, 27]
    assert [row["offset"] for row in files.newest(2, table="orders")] == [28, 26]
    assert files.newest(1)[0]["value"] == b"{29"
    assert [row["offset"] for row in files.newest(None)] == list(range(29, -1, -1))
    assert [rows for columns, rows in reads if columns >= RECORD] == [3, 2, 1, 30]
    assert not any(columns & RECORD for columns, rows in reads if rows is None)


def test_a_letter_that_was_given_back_is_counted_and_said(path: str) -> None:
    """By the table of replays beside it."""
    replays = define_replay_table("x").schema
    schema = arrow_schema((column.name, column.type) for column in replays.physical)
    planned = {"state": "planned", "table": "visits", "topic": "t", "partition": 0, "offset": 29}
    write_deltalake(
        f"{path}{REPLAYED_SUFFIX}",
        pa.Table.from_pylist([dict.fromkeys(schema.names) | planned], schema),
    )
    files = DeadLetterFiles(path=path)

    assert {each.table: each.replayed for each in files.counts()} == {"orders": 0, "visits": 1}
    assert [row["replayed"] for row in files.newest(2)] == [True, False]


def test_where_a_table_stands_changes_with_letters_and_replays(path: str) -> None:
    """Nothing else is read for it."""
    files = DeadLetterFiles(path=path, others=(f"{path}-of-another",))
    seen = [files.standing(), files.standing()]
    for where in (path, f"{path}-of-another{REPLAYED_SUFFIX}"):
        write_deltalake(where, pa.table({"stage": ["value"]}), mode="append", schema_mode="merge")
        seen.append(files.standing())

    assert seen[0] == seen[1]
    assert len({*seen}) == 3
