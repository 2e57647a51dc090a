"""The format ogg-json: the rules of debezium-json with GoldenGate's names, and its times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.catalog.errors import BadRecordError
from tests.connector.formats.decoding import changes

NAME = "ogg-json"
COLUMNS = {"id": "INT", "name": "STRING"}
A, B = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}


def test_operations_become_the_kinds_of_changes_in_flink():
    """I, U and D."""
    records = [
        {"op_type": "I", "after": A},
        {"op_type": "U", "before": A, "after": B},
        {"op_type": "D", "before": B},
        None,
    ]

    assert changes(NAME, COLUMNS, records) == [
        ("+I", 1, "a"),
        ("-U", 1, "a"),
        ("+U", 1, "b"),
        ("-D", 1, "b"),
    ]


def test_a_truncation_is_no_change_of_a_row():
    """T is a bad record, as in Flink."""
    with pytest.raises(BadRecordError, match="'op_type' is 'T'") as caught:
        changes(NAME, COLUMNS, [{"op_type": "T"}])

    assert "truncation" in (caught.value.hint or "")


def test_an_update_without_the_row_before_is_bad():
    """With the same hint as Debezium's."""
    with pytest.raises(BadRecordError, match="'before' of the change 'U' is null") as caught:
        changes(NAME, COLUMNS, [{"op_type": "U", "after": B}])

    assert "REPLICA IDENTITY FULL" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2020-05-13 15:40:06.000000", datetime(2020, 5, 13, 15, 40, 6, tzinfo=UTC)),
        ("2020-05-13T15:40:07.123456789", datetime(2020, 5, 13, 15, 40, 7, 123456, UTC)),
        ("2020-05-13T15:40:07Z", datetime(2020, 5, 13, 15, 40, 7, tzinfo=UTC)),
        (1589384407001, datetime(2020, 5, 13, 15, 40, 7, 1000, UTC)),
        ("1589384407001", datetime(2020, 5, 13, 15, 40, 7, 1000, UTC)),
        ("2020-02-30 00:00:00", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_times_are_texts_of_utc_or_epoch_ms(written, read):
    """As GoldenGate writes them, and as Flink's class expects them; what is neither is NULL."""
    record = {"op_type": "I", "after": A, "op_ts": written, "current_ts": written}
    keys = ["event-timestamp", "ingestion-timestamp", "op_ts", "current_ts"]

    assert changes(NAME, {}, [record], metadata=keys) == [("+I", *[read] * 4)]


def test_other_metadata_is_what_the_documentation_lists():
    """Table and primary keys."""
    record = {"op_type": "D", "before": A, "table": "DB.ORDERS", "primary_keys": ["id"]}

    assert changes(NAME, {"id": "INT"}, [record], metadata=["table", "primary-keys"]) == [
        ("-D", 1, "DB.ORDERS", ["id"])
    ]
