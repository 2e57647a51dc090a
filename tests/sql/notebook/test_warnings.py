"""Warnings of a cell: what a run of the same text as a file says, too. No engine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.clock import SystemClock
from penstock.sql.execution.context import SessionContext
from penstock.sql.notebook import cell as notebook_cell
from penstock.sql.notebook.cell import Cell
from penstock.sql.notebook.options import CellOptions
from penstock.sql.notebook.views import Note, View
from penstock.sql.script.project import Project
from tests.sql.sql_objects import run

TABLE = "CREATE TABLE orders (id BIGINT{}) WITH ('connector' = 'datagen');"
AGAIN = TABLE.replace("TABLE orders", "TABLE IF NOT EXISTS orders")


@pytest.mark.parametrize(("columns", "notes"), [("", 0), (", coupon STRING", 1)])
def test_a_definition_that_differs_from_the_catalogs_is_told_in_a_cell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, columns: str, notes: int
) -> None:
    """The catalog's is used, as in a file; the same definition is no news."""
    monkeypatch.setattr(notebook_cell, "plan_scripts", lambda *_, **__: ())
    namespace = Namespace(SqlCatalog("sqlite://"))
    run(TABLE.format(""), namespace)
    session = SimpleNamespace(
        project=Project(root=tmp_path),
        context=SessionContext(namespace=namespace, project=tmp_path),
        spark=None,
    )
    shown: list[View] = []
    screen = cast("Any", shown.append)

    Cell(cast("Any", session), CellOptions(), screen, SystemClock()).run(AGAIN.format(columns))

    assert len(shown) == notes
    for note in shown:
        assert isinstance(note, Note)
        assert not note.is_error
        assert note.text.startswith("warning[")
        assert "coupon" in note.text
