"""Connectors of Flink that are not here: an error says what can be written in their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import OptionError
from penstock.connector.registry import find_connector, replacement_for


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("faker", "'connector' = 'datagen'"),
        ("mysql-cdc", "debezium-json"),
        ("postgres-cdc", "debezium-json"),
        ("elasticsearch-7", "Kafka Connect"),
        ("hbase-2.2", "Kafka Connect"),
        ("redis", "looked up can be one of 'jdbc'"),
        ("nexmark", "'datagen'"),
        ("iceberg", "'connector' = 'delta'"),
        ("paimon", "'type' = 'spark'"),
        ("kinesis", "Kafka topic"),
        ("Hudi", "'connector' = 'delta'"),
    ],
)
def test_a_connector_that_is_not_here_is_refused_with_what_can_be_done(
    name: str, words: str
) -> None:
    """In a sentence that a person can act on."""
    with pytest.raises(OptionError) as caught:
        find_connector(name, project=Path())

    assert caught.value.hint is not None
    assert words in caught.value.hint


def test_a_misspelt_connector_is_still_told() -> None:
    """And one that nobody knows has nothing in its place."""
    with pytest.raises(OptionError) as caught:
        find_connector("kafak", project=Path())

    assert caught.value.hint == "did you mean 'kafka'?"
    assert replacement_for("chunjun-x") is None
