"""What must hold for any table and any envelopes: columns give what Flink's rules give for one record at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.catalog.model import types as t
from penstock.catalog.options.option import resolve
from penstock.connector.arrow import arrow_schema
from penstock.connector.changelog import RowKind
from penstock.connector.formats import find_format
from penstock.connector.formats.contract import Fields
from penstock.connector.formats.json.decoder import RecordReader
from penstock.connector.formats.json.options import JsonSettings
from penstock.connector.formats.json.text import parse
from tests.connector.formats import json_strategies as some

EXAMPLES = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))

Row = dict[str, Any]
Change = tuple[RowKind, Row]
Rules = Callable[[Fields, bytes], Iterator[Change]]

INSERT, BEFORE, AFTER, DELETE = RowKind


class _BadError(Exception):
    """The record is no change."""


def read(fields: Fields, value: bytes) -> tuple[Any, ...]:
    """Read an envelope by the rules for single records, as Python values."""
    found = RecordReader(fields, JsonSettings(ignore_parse_errors=True, explode_arrays=False))
    rows = found.read(value).rows
    if not rows:
        raise _BadError
    return rows[0]


def row_type(columns: Fields, *, nullable: bool = False) -> t.RowType:
    """The type of a table's row, of columns that may all be NULL if told so."""
    members = tuple(
        t.RowField(name=name, type=replace(kind, nullable=True) if nullable else kind)
        for name, kind in columns
    )
    return t.RowType(fields=members)


def debezium(columns: Fields, value: bytes) -> Iterator[Change]:
    """Debezium's rules."""
    row = row_type(columns)
    envelope = [("before", row), ("after", row), ("op", t.VarCharType(length=9))]
    before, after, op = read(envelope, value)
    needed = {"c": (after,), "r": (after,), "u": (before, after), "d": (before,)}.get(op)
    if needed is None or None in needed:
        raise _BadError
    kinds = {"u": (BEFORE, AFTER), "d": (DELETE,)}.get(op, (INSERT,))
    yield from zip(kinds, needed, strict=True)


def changed(new: Row, old: Row, listed: dict[str, Any]) -> Iterator[Change]:
    """Maxwell's and Canal's rules for an update."""
    yield BEFORE, {name: old[name] if name in listed else new[name] for name in new}
    yield AFTER, new


def maxwell(columns: Fields, value: bytes) -> Iterator[Change]:
    """Maxwell's rules."""
    images = [("data", row_type(columns)), ("old", row_type(columns, nullable=True))]
    data, old, kind = read([*images, ("type", t.VarCharType(length=9))], value)
    if (
        kind not in ("insert", "update", "delete")
        or data is None
        or (kind, old) == ("update", None)
    ):
        raise _BadError
    if kind == "update":
        yield from changed(data, old, parse(value)["old"])
    else:
        yield (INSERT if kind == "insert" else DELETE), data


def canal(columns: Fields, value: bytes) -> Iterator[Change]:
    """Canal's rules."""
    rows = t.ArrayType(element=row_type(columns))
    olds = t.ArrayType(element=row_type(columns, nullable=True))
    data, old, kind = read(
        [("data", rows), ("old", olds), ("type", t.VarCharType(length=9))], value
    )
    if kind == "CREATE":
        return
    lists = (data, old) if kind == "UPDATE" else (data,)
    known = kind in ("INSERT", "UPDATE", "DELETE")
    if not known or any(rows is None or None in rows for rows in lists):
        raise _BadError
    if kind == "UPDATE":
        if len(old) < len(data):
            raise _BadError
        for new, before, listed in zip(data, old, parse(value)["old"], strict=False):
            yield from changed(new, before, listed)
    else:
        yield from ((INSERT if kind == "INSERT" else DELETE, row) for row in data)


def images(columns: Fields) -> st.SearchStrategy[Any]:
    """Rows in an envelope: most are as they should be, some odd, some not there."""
    good = some.objects(columns)
    return st.one_of(good, good, good, some.odd_objects(columns), st.none())


def parts(columns: Fields) -> st.SearchStrategy[Any]:
    """What an update lists of the row before."""
    rows = some.objects([(name, replace(kind, nullable=True)) for name, kind in columns])
    nulls = st.lists(st.sampled_from([name for name, _ in columns])).map(dict.fromkeys)
    return st.one_of(rows, nulls, st.builds(lambda a, b: {**a, **b}, rows, nulls), st.none())


def envelope(name: str, columns: Fields) -> st.SearchStrategy[dict[str, Any]]:
    """Envelopes of a format."""
    if name == "debezium-json":
        before = st.one_of(images(columns), some.objects(columns))
        operation = st.sampled_from([*"ccrruuuddd", "x", None])
        return st.fixed_dictionaries(
            {"before": before, "after": images(columns)}, optional={"op": operation}
        )
    if name == "maxwell-json":
        kinds = st.sampled_from(["insert", "update", "update", "delete", "x", None])
        pair = {"data": images(columns), "old": parts(columns), "type": kinds}
        return st.fixed_dictionaries(pair)
    kinds = st.sampled_from(["INSERT", "UPDATE", "UPDATE", "DELETE", "CREATE", "x", None])
    several = {"data": st.one_of(st.none(), st.lists(images(columns), max_size=3))}
    several["old"] = st.one_of(st.none(), st.lists(parts(columns), max_size=4))
    return st.fixed_dictionaries({**several, "type": kinds})


@st.composite
def batches(draw: st.DrawFn) -> tuple[str, Fields, list[bytes | None]]:
    """A format, a table, and records for it, some of which are no records at all."""
    name = draw(st.sampled_from(["debezium-json", "maxwell-json", "canal-json"]))
    columns = draw(some.fields(depth=1))
    record = envelope(name, columns).map(
        lambda value: some.written(value).encode("utf-8", "replace")
    )
    broken = st.sampled_from([None, b"", b"{", b"5", b"[]", b"null", b"\xff{}"])
    return name, columns, draw(st.lists(st.one_of(record, record, record, broken), max_size=12))


@pytest.mark.slow
@given(batches())
@EXAMPLES
def test_a_batch_gives_what_the_rules_give_for_its_records_one_by_one(case):
    """Whatever the neighbours: the same rows, kinds and records, and as many skipped."""
    name, columns, values = case
    rules = {"debezium-json": debezium, "maxwell-json": maxwell, "canal-json": canal}[name]
    found = find_format(name)
    options = resolve({f"{name}.ignore-parse-errors": "true"}, found.options(), owner="t")
    decoded = found.decoder(columns, options).decode(values, str)

    kinds, rows, kept, skipped = [], [], [], 0
    for index, value in enumerate(values):
        try:
            given_by_rules = list(rules(columns, value)) if value else []
        except _BadError:
            skipped += 1
            continue
        kinds += [kind for kind, _ in given_by_rules]
        rows += [row for _, row in given_by_rules]
        kept += [index] * len(given_by_rules)
    schema = arrow_schema(columns)
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    expected = pa.RecordBatch.from_arrays(arrays, schema=schema).to_pylist()
    assert repr(decoded.batch.to_pylist()) == repr(expected)
    assert decoded.kinds.tolist() == kinds
    assert (decoded.kept.tolist(), decoded.skipped) == (kept, skipped)
