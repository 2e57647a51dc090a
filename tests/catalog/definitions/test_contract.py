"""Versions of definitions, and who changed what when."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace

import pytest

from penstock.catalog.definitions.contract import Change, Unreadable, this_author
from penstock.catalog.definitions.overlay import Overlay
from penstock.catalog.errors import DefinitionError, UnknownObjectError
from penstock.catalog.model.function import Function, Language
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.conftest import Store
from tests.catalog.examples import identifier, table, view

SALES = DatabaseDescriptor(catalog="default_catalog", name="sales")
KEPT = CatalogDescriptor(name="kept", options=(("type", "penstock"),))


def brief(changes: list[Change]) -> list[tuple[str, str, str, int]]:
    """What was done, the newest first."""
    return [(c.action.value, c.kind.value, c.title, c.version) for c in changes]


def test_every_change_is_written_down(catalog: SqlCatalog) -> None:
    """With what was there before and after, and who did it when; also of what is gone."""
    earliest = int(time.time() * 1000) - 60_000
    first, second = table("a"), table("a", connector="kafka")
    catalog.create(first)
    catalog.replace(first, second)
    catalog.replace(second, replace(second, identifier=identifier("b")))
    catalog.drop(identifier("b"), kind="table")
    changes = catalog.history(identifier("b"))

    assert brief(changes) == [
        ("drop", "table", "default_catalog.default_database.b", 4),
        ("rename", "table", "default_catalog.default_database.a", 3),
    ]
    assert brief(catalog.history(identifier("a")))[1:] == [
        ("replace", "table", "default_catalog.default_database.a", 2),
        ("create", "table", "default_catalog.default_database.a", 1),
    ]
    (_, changed, created) = catalog.history(identifier("a"))
    assert (created.before, created.after) == (None, first)
    assert (changed.before, changed.after) == (first, second)
    assert changes[1].renamed_to == ("default_catalog", "default_database", "b")
    assert changes[0].after is None
    assert {c.author for c in changes} == {this_author()}
    assert this_author().process == os.getpid()
    assert all(earliest < c.at_ms < earliest + 120_000 for c in changes)


def test_places_and_functions_have_a_history_too(catalog: SqlCatalog) -> None:
    """What goes with a database is dropped one by one; the newest first, and not more than asked for."""
    inside = Identifier(catalog="kept", database="sales", name="f")
    catalog.create_catalog(KEPT)
    catalog.create_database(replace(SALES, catalog="kept"))
    catalog.create(replace(view("v"), identifier=replace(inside, name="v")))
    catalog.functions.put(Function(identifier=inside, code="m.f", language=Language.PYTHON))
    catalog.replace_catalog(KEPT, replace(KEPT, comment="ours"))
    catalog.drop_database("kept", "sales", cascade=True)
    catalog.drop_catalog("kept")

    assert brief(catalog.history()) == [
        ("drop", "catalog", "kept", 3),
        ("drop", "database", "kept.sales", 2),
        ("drop", "function", "kept.sales.f", 2),
        ("drop", "view", "kept.sales.v", 2),
        ("replace", "catalog", "kept", 2),
        ("create", "function", "kept.sales.f", 1),
        ("create", "view", "kept.sales.v", 1),
        ("create", "database", "kept.sales", 1),
        ("create", "catalog", "kept", 1),
    ]
    assert brief(catalog.history(limit=1)) == [("drop", "catalog", "kept", 3)]
    assert len(catalog.history(inside)) == 2


def test_a_name_never_has_a_version_twice(catalog: SqlCatalog) -> None:
    """Whoever read it before it was dropped, and made again as it was, is told."""
    catalog.create(table("a", connector="kafka"))
    before = catalog.get(identifier("a"))
    catalog.drop(identifier("a"), kind="table")
    catalog.create(table("a", connector="kafka"))
    again = catalog.get(identifier("a"))
    with pytest.raises(DefinitionError) as caught:
        catalog.replace(before, table("a", connector="delta"))

    assert before == again
    assert (before.version, again.version) == (1, 3)
    assert re.fullmatch(
        r"the table default_catalog\.default_database\.a was changed by another process in the meantime: "
        r"it was created by \S+@\S+ \(process \d+\) at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC "
        r"\(it is version 3, what was read is version 1\)",
        caught.value.message,
    )
    assert catalog.get(identifier("a")) == again


def test_what_was_made_of_an_older_version_replaces_nothing(catalog: SqlCatalog) -> None:
    """ALTER MATERIALIZED TABLE writes the whole definition; what was made of nothing replaces what is there."""
    catalog.create(table("a"))
    before = catalog.get(identifier("a"))
    catalog.create(replace(before, comment="theirs"), replace=True)
    with pytest.raises(DefinitionError, match="it is version 2, what was read is version 1"):
        catalog.create(replace(before, comment="mine"), replace=True)
    refused = catalog.get(identifier("a"))
    catalog.create(table("a", connector="kafka"), replace=True)

    assert refused.comment == "theirs"
    assert catalog.get(identifier("a")) == table("a", connector="kafka")


def test_who_took_something_away_is_told(catalog: SqlCatalog) -> None:
    """Dropped, or renamed and to what."""
    for name in ("a", "b"):
        catalog.create(table(name))
    a, b = (catalog.get(identifier(name)) for name in ("a", "b"))
    catalog.drop(identifier("a"), kind="table")
    catalog.replace(b, replace(b, identifier=identifier("c")))
    hints = []
    for before in (a, b):
        with pytest.raises(UnknownObjectError) as caught:
            catalog.replace(before, replace(before, comment="mine"))
        hints.append(caught.value.hint or "")

    assert hints[0].startswith(f"it was dropped by {this_author().name} (process ")
    assert hints[1].startswith("it was renamed to default_catalog.default_database.c by ")


def test_places_conflict_by_their_versions_as_well(catalog: SqlCatalog) -> None:
    """Changed and changed back is changed; what has never been altered has a version too."""
    catalog.create_database(SALES)
    read = (
        catalog.database("default_catalog", "sales"),
        catalog.database("default_catalog", "default_database"),
        catalog.catalogs()[0],
    )
    for value in read:
        change = (
            catalog.replace_catalog
            if isinstance(value, CatalogDescriptor)
            else catalog.replace_database
        )
        named = replace(value, comment="x")
        change(value, named)  # type: ignore[arg-type]
        change(replace(named, version=None), value)  # type: ignore[arg-type]
        with pytest.raises(DefinitionError, match="it is version"):
            change(value, replace(value, comment="mine"))  # type: ignore[arg-type]

    assert [value.version for value in read] == [1, 0, 0]


def test_a_draft_may_change_what_it_changed(catalog: SqlCatalog) -> None:
    """A file that alters a table twice is checked on one; then it runs, one statement after the other."""
    catalog.create(table("a"))
    overlay = Overlay(catalog, isolated=True)
    before = overlay.get(identifier("a"))
    overlay.replace(before, replace(before, comment="1"))
    once = overlay.get(identifier("a"))
    overlay.replace(once, replace(once, comment="2"))
    twice = overlay.get(identifier("a"))
    catalog.replace(before, once)
    catalog.replace(once, twice)
    found = catalog.get(identifier("a"))

    assert found.comment == "2"
    assert found.version == 3
    assert len(overlay.history(identifier("a"))) == 3


def test_a_change_that_is_refused_leaves_no_trace(catalog: SqlCatalog) -> None:
    """Nor does one that changes nothing."""
    catalog.create(table("a"))
    catalog.create(table("a"), if_not_exists=True)
    catalog.drop(identifier("b"), kind="table", if_exists=True)
    with pytest.raises(DefinitionError):
        catalog.replace(table("a", connector="x"), table("a", connector="y"))

    assert brief(catalog.history()) == [
        ("create", "table", "default_catalog.default_database.a", 1)
    ]


def test_a_change_that_cannot_be_read_hides_no_other(catalog: SqlCatalog, store: Store) -> None:
    """A newer Penstock may have written one."""
    catalog.create(table("a"))
    catalog.create(table("b"))
    store.execute("""UPDATE penstock_history SET after = '{"v": 9}' WHERE object_name = 'a'""")
    newest, oldest = catalog.history()

    assert newest.after == table("b")
    assert isinstance(oldest.after, Unreadable)
    assert "another version of Penstock" in oldest.after.reason
