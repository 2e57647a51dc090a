"""What must hold for any table and any records: the fast path is a faster slow path, and no record moves another."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.connector.arrow import arrow_schema
from penstock.connector.formats.contract import Fields
from penstock.connector.formats.json.decoder import JsonDecoder, RecordReader
from penstock.connector.formats.json.options import JsonSettings
from tests.connector.formats import json_strategies as some

EXAMPLES = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


def one_by_one(
    columns: Fields, options: JsonSettings, values: list[bytes | None]
) -> tuple[list[Any], list[int]]:
    """Read records one by one, by the rules that decide: rows, and the record of each."""
    reader = RecordReader(columns, options)
    rows, sources = [], []
    for index, value in enumerate(values):
        found = reader.read(value).rows if value else ()
        rows += found
        sources += [index] * len(found)
    schema = arrow_schema(columns)
    arrays = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema).to_pylist(), sources


@st.composite
def batches(draw: st.DrawFn) -> tuple[Fields, list[list[bytes | None]]]:
    """A table and a few batches of records for it."""
    columns = draw(some.fields())
    return columns, draw(
        st.lists(st.lists(some.records(columns), max_size=12), min_size=1, max_size=3)
    )


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[Fields, list[tuple[bytes | None, bool]]]:
    """A table, and records that are as they should be or broken, with which they are."""
    columns = draw(some.fields())
    good = some.objects(columns).map(
        lambda value: (some.written(value).encode("utf-8", "replace"), True)
    )
    bad = st.sampled_from([None, b"", b" ", b"null", b"5", b'{"a":', b"{]", b'{"a":NaN', b"\xff{}"])
    return columns, draw(
        st.lists(st.one_of(good, bad.map(lambda value: (value, False))), max_size=30)
    )


@pytest.mark.slow
@given(mixtures())
@EXAMPLES
def test_good_records_among_bad_ones_are_kept_in_order(case):
    """Exactly the good ones, each as it would be alone."""
    columns, mixture = case
    decoder = JsonDecoder(columns, JsonSettings(ignore_parse_errors=True))
    decoded = decoder.decode([value for value, _ in mixture], str)

    kept = list(range(len(mixture))) if decoded.kept is None else decoded.kept.tolist()
    assert kept == [index for index, (_, good) in enumerate(mixture) if good]
    assert decoded.skipped == len(mixture) - len(kept)
    alone = [
        row
        for value, good in mixture
        if good
        for row in decoder.decode([value], str).batch.to_pylist()
    ]
    assert repr(decoded.batch.to_pylist()) == repr(alone)


@pytest.mark.slow
@given(batches(), st.booleans())
@EXAMPLES
def test_a_batch_gives_what_its_records_give_one_by_one(case, fail_on_missing):
    """Whatever the neighbours, each record gives the rows that Flink's rules give for it, in order."""
    columns, several = case
    ignore = not fail_on_missing
    options = JsonSettings(ignore_parse_errors=ignore, fail_on_missing_field=fail_on_missing)
    decoder = JsonDecoder(columns, options)
    reader = RecordReader(columns, options)
    for batch in several:
        values = batch
        if not ignore:
            values = [v for v in batch if v and reader.read(v).problem is None]
        expected, sources = one_by_one(columns, options, values)

        decoded = decoder.decode(values, str)

        assert repr(decoded.batch.to_pylist()) == repr(expected)
        kept = list(range(len(values))) if decoded.kept is None else decoded.kept.tolist()
        assert kept == sources
