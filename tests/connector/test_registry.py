"""Connectors of other packages: found by their entry points, and asked as those of our own are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.catalog.errors import OptionError
from penstock.connector.contract import Connector
from penstock.connector.registry import (
    connector_names,
    find_connector,
    options_of_provider,
    replacement_for,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeConnector(Connector):
    """A connector that reads the tables of a format of Spark's."""

    project: Path
    name = "lake"

    def options_of_provider(self, provider: str, location: str) -> Mapping[str, str] | None:
        """Return those of a folder."""
        return {"connector": "lake", "folder": location} if provider == "lakehouse" else None


@dataclass(frozen=True)
class EntryPoint:
    """What an installed package declares."""

    name: str = "lake"

    def load(self) -> type[Connector]:
        """Return the connector."""
        return LakeConnector


def test_tables_of_spark_are_read_by_the_connector_of_their_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ours or another package's; Spark reads those of which none is known."""
    before = options_of_provider("lakehouse", "/data/orders")
    monkeypatch.setattr("penstock.connector.registry.entry_points", lambda **_: [EntryPoint()])

    assert before is None
    assert "lake" in connector_names()
    assert find_connector("lake", project=Path()).name == "lake"
    assert options_of_provider("lakehouse", "/d") == {"connector": "lake", "folder": "/d"}
    assert options_of_provider("DELTA", "/d") == {"connector": "delta", "path": "/d"}
    assert options_of_provider("parquet", "/d") is None


# --- connectors of Flink that are not here: an error says what can be written in their place ---


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
