"""Connectors of other packages: found by their entry points, and asked as those of our own are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.connector.contract import Connector
from penstock.connector.registry import connector_names, find_connector, options_of_provider


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
