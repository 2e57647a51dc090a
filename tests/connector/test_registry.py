"""Connectors of other packages: found by their entry points, and asked as those of our own are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.catalog.errors import OptionError
from penstock.connector import registry
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


@pytest.fixture(autouse=True)
def looked_for_again() -> Iterator[None]:
    """What is found is kept in a process."""
    registry._loadable.cache_clear()
    yield
    registry._loadable.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, *found: EntryPoint) -> None:
    """Install packages while it runs."""
    monkeypatch.setattr(registry, "entry_points", lambda **_: found)
    registry._loadable.cache_clear()


def test_tables_of_spark_are_read_by_the_connector_of_their_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ours or another package's; Spark reads those of which none is known."""
    before = options_of_provider("lakehouse", "/data/orders")
    install(monkeypatch, EntryPoint())

    assert before is None
    assert "lake" in connector_names()
    assert find_connector("lake", project=Path()).name == "lake"
    assert options_of_provider("lakehouse", "/d") == {"connector": "lake", "folder": "/d"}
    assert options_of_provider("DELTA", "/d") == {"connector": "delta", "path": "/d"}
    assert options_of_provider("parquet", "/d") is None


def test_a_package_that_cannot_be_loaded_costs_its_own_tables_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Tables of all other formats are read; ours are asked first, whatever others are called."""
    install(monkeypatch, Broken(), Greedy(), EntryPoint())

    assert options_of_provider("delta", "/d") == {"connector": "delta", "path": "/d"}
    assert options_of_provider("lakehouse", "/d") == {"connector": "aaa", "folder": "/d"}
    assert caplog.text.count("'broken' cannot be loaded, and is not asked: no lake.so") == 1


@dataclass(frozen=True)
class Broken(EntryPoint):
    """What is left of a package."""

    name: str = "broken"

    def load(self) -> type[Connector]:
        """Fail as an import does."""
        raise ImportError("no lake.so")


@dataclass(frozen=True)
class Greedy(EntryPoint):
    """A package that reads everything."""

    name: str = "aaa"

    def load(self) -> type[Connector]:
        """Return the connector."""
        return GreedyConnector


class GreedyConnector(LakeConnector):
    """Takes the tables of every provider."""

    def options_of_provider(self, provider: str, location: str) -> Mapping[str, str] | None:
        """Return those of a folder."""
        del provider
        return {"connector": "aaa", "folder": location}


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
