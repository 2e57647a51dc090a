"""The rowtimes that discovery proposes are of the kind that can be had before Spark runs."""

from __future__ import annotations

import pytest

from penstock.connector.kafka.inference import infer_topic_table
from penstock.sql.expressions.rowtime import rowtime_of
from tests.connector.inferring.samples import rows, sample, split

START = 1_767_225_600  # 2026-01-01, in seconds


@pytest.mark.parametrize("nested", [False, True], ids=["column", "field"])
@pytest.mark.parametrize(
    "time",
    [
        lambda n: START + n,
        lambda n: (START + n) * 10**3,
        lambda n: (START + n) * 10**6,
        lambda n: (START + n) * 10**9,
        lambda n: f"2026-01-01 00:00:0{n}",
        lambda n: f"2026-01-01T00:00:0{n}+01:00",
        lambda n: f"2026-01-01T00:00:0{n}.123456Z" if n else "2026-01-01T00:00:00.1Z",
    ],
    ids=["s", "ms", "us", "ns", "sql", "offset", "iso"],
)
def test_a_proposed_rowtime_is_evaluated_at_planning(time, nested):
    """Epoch numbers of every unit, texts of every standard, in a column or in a field of a ROW."""
    records = [{"id": n, "time": time(n)} for n in range(9)]
    values = rows(*({"row": record} if nested else record for record in records))
    inferred = infer_topic_table(
        sample(split(values, times_ms=[START * 1000] * 9)),
        name="t",
        topic="t",
        properties={"bootstrap.servers": "broker:9092"},
        asked=None,
    )
    found = rowtime_of(inferred.table("c", "d"))

    assert found is not None
    assert found.column == inferred.watermark.column
