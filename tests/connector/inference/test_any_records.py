"""Whatever JSON objects hold, a table is found that takes all of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.catalog.options.option import resolve
from penstock.connector.formats import find_format
from penstock.connector.formats.decoders import collecting_errors
from penstock.connector.inference.inferred_table import ddl_lines
from penstock.connector.kafka.connector import describe
from penstock.connector.kafka.inference import infer_topic_table
from tests.connector.inferring.samples import sample, split

NAMES = st.sampled_from(
    ["id", "ID", "ts", "amount", "a b", "`", "{{ x }}", "line\nend", "select", ""]
)
TEXTS = st.sampled_from(
    [
        "",
        "x",
        "2026-01-31",
        "2026-02-30",
        "2026-01-31 10:00:00",
        "2026-01-31T10:00:00Z",
        "1e5",
        "'",
        "{%",
    ]
)
NUMBERS = (
    st.integers(-(10**42), 10**42)
    | st.integers(0, 200)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=5)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(OBJECTS, min_size=1, max_size=5).filter(
        lambda found: any(set(o) - {""} for o in found)
    )
)
def test_the_table_takes_every_record_of_its_sample(objects):
    """It is one that its connector accepts, its format refuses no record, and comments end on their lines."""
    values = [json.dumps(each).encode() for each in objects]
    made = infer_topic_table(
        sample(split(values, times_ms=[1_767_225_600_000] * len(values))),
        name="t",
        topic="t",
        properties={"bootstrap.servers": "broker:9092"},
        asked="json",
    )
    source = describe(made.table("c", "d"))
    fields = [(field.name, field.type) for field in source.projection.value]
    options = {key: text for key, text in made.options if key.startswith("json.")}
    chosen = find_format("json")
    decoder = collecting_errors(
        chosen.decoder(fields, resolve(options, chosen.options(""), owner="t"))
    )
    decoded = decoder.decode(values, lambda index: f"record {index}")

    assert decoded.bad == ()
    assert decoded.batch.num_rows == len(values)
    assert "bad-records" not in dict(made.options)
    assert all("\n" not in line for line in ddl_lines(made))
