"""Every format runs the contract of formats."""

from __future__ import annotations

import json

import pytest

from penstock.connector.formats import format_names
from tests.contract.format import FormatContext, FormatContract

COLUMNS = {"id": "BIGINT", "name": "STRING"}
OLD = {"id": 1, "name": "a"}
NEW = {"id": 1, "name": "b"}
NOT_JSON = b"{no"


def record(value: object) -> bytes:
    """A record of JSON."""
    return json.dumps(value, ensure_ascii=False).encode()


class TestJson(FormatContract):
    """Objects, arrays of them, and none."""

    @pytest.fixture
    def context(self) -> FormatContext:
        """A tombstone gives no row."""
        return FormatContext(
            name="json",
            columns=COLUMNS,
            records=[
                (record({"id": 1, "name": "ä"}), [(1, "ä")]),
                (None, []),
                (record({"name": None}), [(None, None)]),
                (record([{"id": 2}, {"id": 3, "more": 1}]), [(2, None), (3, None)]),
            ],
            bad=[NOT_JSON, b'{"id": 1,', b"1"],
            ignore_errors="json.ignore-parse-errors",
        )


class TestRawText(FormatContract):
    """A column of the record's text."""

    @pytest.fixture
    def context(self) -> FormatContext:
        """Nothing is bad: bytes that are no text are replaced."""
        return FormatContext(
            name="raw",
            columns={"line": "STRING"},
            records=[(b"a", [("a",)]), (b"", [("",)]), (None, [(None,)])],
        )


class TestRawNumbers(FormatContract):
    """A column of a number's bytes."""

    @pytest.fixture
    def context(self) -> FormatContext:
        """Four bytes are an INT."""
        return FormatContext(
            name="raw",
            columns={"number": "INT"},
            records=[(b"\x00\x00\x00\x07", [(7,)]), (None, [(None,)])],
            bad=[b"\x01", b"12345"],
        )


def change_context(name: str, insert: object, update: object, delete: object) -> FormatContext:
    """A format of changes: an insert, an update of two rows, a tombstone and a delete."""
    return FormatContext(
        name=name,
        columns=COLUMNS,
        records=[
            (record(insert), [(1, "a")]),
            (record(update), [(1, "a"), (1, "b")]),
            (None, []),
            (record(delete), [(1, "b")]),
        ],
        bad=[NOT_JSON, b"{}", b"[]"],
        ignore_errors=f"{name}.ignore-parse-errors",
    )


CHANGES = (
    change_context(
        "debezium-json",
        {"before": None, "after": OLD, "op": "c"},
        {"before": OLD, "after": NEW, "op": "u"},
        {"before": NEW, "after": None, "op": "d"},
    ),
    change_context(
        "ogg-json",
        {"before": None, "after": OLD, "op_type": "I"},
        {"before": OLD, "after": NEW, "op_type": "U"},
        {"before": NEW, "after": None, "op_type": "D"},
    ),
    change_context(
        "canal-json",
        {"data": [OLD], "old": None, "type": "INSERT"},
        {"data": [NEW], "old": [{"name": "a"}], "type": "UPDATE"},
        {"data": [NEW], "old": None, "type": "DELETE"},
    ),
    change_context(
        "maxwell-json",
        {"data": OLD, "type": "insert"},
        {"data": NEW, "old": {"name": "a"}, "type": "update"},
        {"data": NEW, "type": "delete"},
    ),
)


class TestChanges(FormatContract):
    """The envelopes of Debezium, GoldenGate, Canal and Maxwell."""

    @pytest.fixture(params=CHANGES, ids=[each.name for each in CHANGES])
    def context(self, request: pytest.FixtureRequest) -> FormatContext:
        """One of them."""
        found: FormatContext = request.param
        return found


def test_every_format_has_a_context() -> None:
    """A new one is added here."""
    assert {*(each.name for each in CHANGES), "json", "raw"} == set(format_names())
