"""Tables and views as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from penstock.catalog.errors import CatalogError
from penstock.catalog.model.codec import table_from_json, table_to_json
from penstock.catalog.model.table import Table, View
from tests.catalog.examples import table
from tests.catalog.strategies import tables, views


@given(tables())
def test_a_table_is_read_as_it_was_written(value: Table) -> None:
    """Through real JSON text, everything kept."""
    assert table_from_json(json.loads(json.dumps(table_to_json(value)))) == value


@given(views)
def test_a_view_is_read_as_it_was_written(value: View) -> None:
    """Through real JSON text, everything kept."""
    assert table_from_json(json.loads(json.dumps(table_to_json(value)))) == value


@pytest.mark.parametrize("version", [2, 0, None, "1"])
def test_another_version_is_refused(version: object) -> None:
    """A guess at an unknown format would change the definition."""
    with pytest.raises(CatalogError, match="another version"):
        table_from_json(table_to_json(table()) | {"v": version})
