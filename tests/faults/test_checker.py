"""The checker finds each thing that can be wrong with a result: here it is planted."""

from __future__ import annotations

from zlib import crc32

import pytest

from tests.faults.checker import Expected, Row, Verdict, check
from tests.faults.workload import payload

SEED = 7
EXPECTED = Expected(counts={0: 20, 1: 10}, aborted=frozenset({(1, 4), (1, 5)}))


def row(part: int, seq: int) -> Row:
    """The row of a record as it was written."""
    text = payload(SEED, part, seq)
    return Row(part, seq, text, crc32(text.encode()))


def whole() -> list[Row]:
    """A result with nothing wrong."""
    return [row(part, seq) for part, seq in EXPECTED]


def judge(rows: list[Row], *, ordered: bool = True) -> Verdict:
    """Check against what all tests here expect."""
    return check(rows, EXPECTED, ordered=ordered)


def test_a_whole_result_has_no_findings() -> None:
    """Every record once and in order, without those of the aborted transaction."""
    verdict = judge(whole())

    assert verdict.findings == {}
    assert str(verdict) == "28 rows: every record once"


@pytest.mark.parametrize("at", [0, 7, 19, 20, 27])
def test_a_planted_loss_is_found(at: int) -> None:
    """At the start, within and at the end of a partition."""
    rows = whole()
    gone = rows.pop(at)

    assert judge(rows).findings == {"lost": [(gone.part, gone.seq)]}


@pytest.mark.parametrize("distance", [1, 5, 12])
def test_a_planted_duplicate_is_found(distance: int) -> None:
    """Right behind the first and far from it, and it is not taken for a change of order."""
    rows = whole()
    rows.insert(3 + distance, rows[3])

    assert judge(rows).findings == {"doubled": [(0, 3)]}


def test_a_planted_loss_is_not_hidden_by_a_duplicate() -> None:
    """The count is right and the result is not."""
    rows = whole()
    rows[9] = rows[8]

    assert judge(rows).findings == {"lost": [(0, 9)], "doubled": [(0, 8)]}


def test_a_planted_change_of_order_is_found() -> None:
    """Where order is promised; a table has none."""
    rows = whole()
    rows[5], rows[6] = rows[6], rows[5]

    assert judge(rows).findings == {"reordered": [(0, 5)]}
    assert judge(rows, ordered=False).findings == {}


def test_partitions_may_come_in_any_mixture() -> None:
    """Order is one of a partition."""
    rows = sorted(whole(), key=lambda row: (row.seq, row.part))

    assert judge(rows).findings == {}


def test_planted_damage_is_found() -> None:
    """A payload that is not the one of its checksum."""
    rows = whole()
    rows[2] = rows[2]._replace(payload=rows[3].payload)

    assert judge(rows).findings == {"damaged": [(0, 2)]}


def test_a_planted_aborted_record_is_found() -> None:
    """It was written, and nobody may see it."""
    rows = [*whole(), row(1, 4)]

    assert judge(rows).findings == {"aborted": [(1, 4)]}


def test_a_planted_stranger_is_found() -> None:
    """A record that nobody wrote."""
    rows = [*whole(), row(0, 20), row(2, 0)]

    assert judge(rows).findings == {"unknown": [(0, 20), (2, 0)]}
