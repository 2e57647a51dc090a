"""Decoding that goes on past bad records: each decides alone, and is listed with its reason."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalog.errors import BadRecordError
from penstock.catalog.model.types import BigIntType
from penstock.catalog.options.option import resolve
from penstock.connector.formats import Decoder, find_format
from penstock.connector.formats.decoders import BisectingDecoder, collecting_errors

GOOD = [b'{"id": 1}', b'[{"id": 2}, {"id": 3}]', b'{"id": null}', b"[]"]
BAD = [b"nonsense", b'{"id": "x"}', b'[{"id": 2}, {"id": "x"}]', b'{"id": 1', b"\xff"]
NOTHING = [None, b""]


def json_decoder() -> Decoder:
    """A decoder of one number."""
    json = find_format("json", option="format")
    options = resolve({}, json.options(), owner="t")
    return json.decoder([("id", BigIntType())], options)


def where(index: int) -> str:
    """Name a record."""
    return f"offset {index}"


@pytest.mark.slow
@settings(deadline=None)
@given(values=st.lists(st.sampled_from([*GOOD, *BAD, *NOTHING]), max_size=20))
def test_only_bad_records_are_listed_and_no_other_loses_a_row(values: list[bytes | None]) -> None:
    """As if each were decoded alone; a record that is bad in part gives no row at all."""
    decoded = collecting_errors(json_decoder()).decode(values, where)
    kept = range(decoded.batch.num_rows) if decoded.kept is None else decoded.kept.tolist()
    alone = {i: _rows_alone(value) for i, value in enumerate(values)}

    assert [bad.index for bad in decoded.bad] == [i for i, v in enumerate(values) if v in BAD]
    assert [(i, row["id"]) for i, row in zip(kept, decoded.batch.to_pylist(), strict=True)] == [
        (i, number) for i, numbers in alone.items() for number in numbers
    ]
    assert decoded.skipped == sum(value in BAD or value in NOTHING for value in values)


@pytest.mark.slow
@settings(deadline=None)
@given(values=st.lists(st.sampled_from([*GOOD, *BAD, *NOTHING]), max_size=20))
def test_a_format_that_only_raises_gives_the_same(values: list[bytes | None]) -> None:
    """By halves: rows, their records, counts and reasons."""
    by_itself = collecting_errors(json_decoder()).decode(values, where)
    by_halves = BisectingDecoder(decoder=json_decoder()).decode(values, where)

    assert by_halves.batch == by_itself.batch
    assert by_halves.bad == by_itself.bad
    assert by_halves.skipped == by_itself.skipped


def test_a_reason_is_without_the_records_place_and_text() -> None:
    """Those are kept beside it."""
    decoded = collecting_errors(json_decoder()).decode([b'{"id": "x"}'], where)

    assert [bad.error for bad in decoded.bad] == ["field 'id': not a BIGINT: \"x\""]


def test_numbers_of_raw_are_gathered_too() -> None:
    """The format knows nothing of it."""
    raw = find_format("raw", option="format")
    decoder = raw.decoder([("n", BigIntType())], resolve({}, raw.options(), owner="t"))
    decoded = collecting_errors(decoder).decode([b"\0" * 8, b"short", b"\0" * 7 + b"\5"], where)

    assert decoded.batch.to_pydict() == {"n": [0, 5]}
    assert [(bad.index, bad.error) for bad in decoded.bad] == [(1, "5 bytes, but BIGINT is 8")]


def _rows_alone(value: bytes | None) -> list[int | None]:
    """The numbers of a record that is decoded alone."""
    if value in BAD:
        with pytest.raises(BadRecordError):
            json_decoder().decode([value], where)
        return []
    return [row["id"] for row in json_decoder().decode([value], where).batch.to_pylist()]
