"""Numbers that stand for keys."""

from __future__ import annotations

import hashlib
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import arrow_type
from penstock.connector.delta.files.key_digests import (
    KeyDigests,
    has_digest,
    is_wide,
    key_digests,
)

VALUES = {
    "BIGINT": [-1, 0, 1 << 40],
    "INT": [-1, 0, 7],
    "TINYINT": [-1, 0, 7],
    "DATE": [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)],
    "TIMESTAMP(6)": [datetime(1, 1, 1), datetime(1970, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)],
    "TIMESTAMP_LTZ(6)": [datetime(1970, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)],
    "STRING": ["", "a", "ä"],
    "BOOLEAN": [True, False],
    "DECIMAL(10, 2)": [Decimal("0.00"), Decimal("-1.50"), Decimal("1.50")],
    "BYTES": [b"", b"\xff", b"a"],
}


def pairs(found: KeyDigests) -> list[tuple[int, int]]:
    high = [0] * len(found) if found.high is None else found.high.tolist()
    return list(zip(found.low.tolist(), high, strict=True))


@pytest.mark.parametrize("name", VALUES)
def test_different_values_have_different_digests_and_equal_ones_the_same(name: str) -> None:
    """Alone and with another column, in whole arrays and in pieces."""
    kind = parse_type(name)
    array = pa.array(VALUES[name], arrow_type(kind))
    assert has_digest(kind)
    for columns, wide in (([array], is_wide([kind])), ([array, array], True)):
        found = pairs(key_digests(columns, wide=wide))
        assert len(set(found)) == len(array)
        pieces = [pa.chunked_array([each.slice(0, 1), each.slice(1)]) for each in columns]
        assert pairs(key_digests(pieces, wide=wide)) == found
        kept = KeyDigests.from_bytes(key_digests(columns, wide=wide).to_bytes(), wide=wide)
        assert pairs(kept) == found


def test_instants_are_the_same_in_every_zone() -> None:
    """Spark gives them in that of the session."""
    there = pa.array(VALUES["TIMESTAMP_LTZ(6)"], pa.timestamp("us", "UTC"))
    here = there.cast(pa.timestamp("us", "Europe/Berlin"))

    assert pairs(key_digests([there], wide=False)) == pairs(key_digests([here], wide=False))
    assert pairs(key_digests([there, there], wide=True)) == pairs(
        key_digests([here, here], wide=True)
    )


def test_where_a_value_ends_counts() -> None:
    """Two texts are not the same as their parts in other columns."""
    one = key_digests([pa.array(["a", "ab", ""]), pa.array(["bc", "c", "abc"])], wide=True)

    assert len(set(pairs(one))) == 3


def test_a_digest_is_that_of_the_texts_with_their_lengths() -> None:
    """It is the same in each process: what tasks send is compared by the driver."""
    (found,) = pairs(key_digests([pa.array(["ä"]), pa.array([7])], wide=True))

    digest = hashlib.md5("2:ä1:7".encode()).digest()
    assert found == (int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little"))


@pytest.mark.parametrize("name", ["FLOAT", "DOUBLE", "TIME", "ARRAY<INT>", "ROW<a INT>"])
def test_types_without_one_form_of_a_value_have_no_digest(name: str) -> None:
    """0.0 and -0.0 are equal."""
    assert not has_digest(parse_type(name))


def test_nothing_has_no_digests() -> None:
    """Of no keys there are none, in both widths."""
    assert [len(KeyDigests.joined([], wide=wide)) for wide in (True, False)] == [0, 0]
    assert len(key_digests([pa.array([], pa.string())], wide=True)) == 0
