"""Names in a session: completion, temporary objects, overlays."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    ObjectExistsError,
    UnknownObjectError,
)
from penstock.catalog.store import objects as object_rows
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.examples import identifier, table, view


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}")


@pytest.fixture
def namespace(catalog: SqlCatalog) -> Namespace:
    return Namespace(catalog)


def test_a_short_name_is_completed(namespace: Namespace) -> None:
    """By the current catalog and database."""
    assert namespace.resolve(["orders"]) == identifier("orders")
    assert str(namespace.resolve(["sales", "orders"])) == "default_catalog.sales.orders"
    assert str(namespace.resolve(["c", "d", "t"])) == "c.d.t"


@pytest.mark.parametrize("parts", [(), ("a", "b", "c", "d")])
def test_a_name_has_one_to_three_parts(namespace: Namespace, parts: tuple[str, ...]) -> None:
    """Others name nothing."""
    with pytest.raises(DefinitionError):
        namespace.resolve(parts)


def test_a_temporary_object_hides_a_permanent_one(namespace: Namespace) -> None:
    """As in Flink: until it is dropped."""
    permanent, hiding = table(connector="kafka"), table(temporary=True, connector="delta")
    namespace.create(permanent)
    namespace.create(hiding)

    assert namespace.lookup(identifier("orders")) == hiding
    assert namespace.tables() == [identifier("orders")]
    namespace.drop(identifier("orders"), kind="table", temporary=True)
    assert namespace.lookup(identifier("orders")) == permanent


def test_a_temporary_object_is_not_kept(
    namespace: Namespace, catalog: SqlCatalog, tmp_path: Path
) -> None:
    """It does not even make a store."""
    namespace.create(table(temporary=True))

    assert catalog.tables() == []
    assert not (tmp_path / "catalog.db").exists()


def test_a_temporary_view_takes_a_table_out_of_the_list(namespace: Namespace) -> None:
    """What a list names can be looked up as what the list says."""
    namespace.create(table("x"))
    namespace.create(view("x", temporary=True))

    assert namespace.tables() == []
    assert namespace.views() == [identifier("x")]


def test_a_plain_drop_does_not_reach_below_a_temporary_object(namespace: Namespace) -> None:
    """Flink refuses it; without the word TEMPORARY nobody sees which of the two is meant."""
    namespace.create(table())
    namespace.create(table(temporary=True))
    with pytest.raises(DefinitionError, match="temporary"):
        namespace.drop(identifier("orders"), kind="table", temporary=False)
    namespace.drop(identifier("orders"), kind="table")  # whichever the name stands for
    namespace.drop(identifier("orders"), kind="table", temporary=False)

    assert namespace.tables() == []


def test_dropping_what_is_not_there_is_an_error_unless_said(namespace: Namespace) -> None:
    """Temporary or not."""
    for temporary in (None, True, False):
        namespace.drop(identifier("x"), kind="table", if_exists=True, temporary=temporary)
        with pytest.raises(UnknownObjectError):
            namespace.drop(identifier("x"), kind="table", temporary=temporary)


def test_a_temporary_name_is_taken_once(namespace: Namespace) -> None:
    """IF NOT EXISTS keeps the first, REPLACE the last."""
    first, second = table(temporary=True), table(temporary=True, connector="kafka")
    namespace.create(first)
    with pytest.raises(ObjectExistsError, match="temporary table"):
        namespace.create(second)
    namespace.create(second, if_not_exists=True)
    assert namespace.lookup(identifier("orders")) == first
    namespace.create(second, replace=True)

    assert namespace.lookup(identifier("orders")) == second


def test_an_unknown_name_suggests_temporary_and_permanent_ones(namespace: Namespace) -> None:
    """The nearest of all that can be seen."""
    namespace.create(table("orders"))
    namespace.create(view("shipments", temporary=True))
    for wrong, right in (("ordrs", "orders"), ("shipment", "shipments")):
        with pytest.raises(UnknownObjectError) as caught:
            namespace.lookup(identifier(wrong))
        assert caught.value.hint == f"did you mean '{right}'?"


def test_only_a_database_that_exists_can_be_used(namespace: Namespace) -> None:
    """The same for listing one."""
    namespace.use(["default_database"])
    namespace.use(["default_catalog", "default_database"])
    for parts in (["defaultdatabase"], ["other", "default_database"]):
        with pytest.raises(UnknownObjectError):
            namespace.use(parts)
    with pytest.raises(UnknownObjectError):
        namespace.tables("other")

    assert namespace.resolve(["t"]) == identifier("t")


def test_a_draft_changes_nothing(namespace: Namespace, tmp_path: Path) -> None:
    """A file is tried as a whole before its first statement runs."""
    overlay = namespace.overlay()
    overlay.create(table("a"))
    overlay.create(table("b", temporary=True))
    overlay.create(view("v"))
    overlay.drop(identifier("a"), kind="table")

    assert overlay.tables() == [identifier("b")]
    assert overlay.views() == [identifier("v")]
    assert (namespace.tables(), namespace.views()) == ([], [])
    assert not (tmp_path / "catalog.db").exists()


def test_the_nearest_name_may_be_one_of_the_draft(namespace: Namespace) -> None:
    """What a file has defined so far is what its next statements may have meant."""
    overlay = namespace.overlay()
    overlay.create(table("orders"))

    with pytest.raises(UnknownObjectError) as caught:
        overlay.lookup(identifier("order"))

    assert caught.value.hint == "did you mean 'orders'?"


def test_a_draft_sees_what_is_there_and_refuses_what_the_store_would(namespace: Namespace) -> None:
    """The same rules, so that what passes on the overlay passes for good."""
    namespace.create(table("kept"))
    namespace.create(table("hidden", temporary=True))
    overlay = namespace.overlay()

    def attempts(target: Namespace) -> list[str]:
        told: list[str] = []
        for attempt in (
            lambda: target.create(table("kept")),
            lambda: target.create(view("kept"), replace=True),
            lambda: target.create(table("hidden", temporary=True)),
            lambda: target.drop(identifier("kept"), kind="view"),
            lambda: target.drop(identifier("gone"), kind="table"),
            lambda: target.lookup(identifier("kep")),
        ):
            with pytest.raises(InputError) as caught:
                attempt()
            told.append(
                f"{type(caught.value).__name__}: {caught.value.message} ({caught.value.hint})"
            )
        return told

    assert attempts(overlay) == attempts(namespace)
    overlay.drop(identifier("kept"), kind="table")
    overlay.create(view("kept"))
    assert overlay.views() == [identifier("kept")]
    assert namespace.tables() == [identifier("hidden"), identifier("kept")]


def test_a_draft_of_a_draft_is_its_own(namespace: Namespace) -> None:
    """Each layer keeps its own changes."""
    overlay = namespace.overlay()
    overlay.create(table("a"))
    second = overlay.overlay()
    second.drop(identifier("a"), kind="table")
    second.create(table("b"))

    assert overlay.tables() == [identifier("a")]
    assert second.tables() == [identifier("b")]


def test_a_kind_is_told_without_the_nearest_name(
    namespace: Namespace, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that defines a thousand tables asks for a thousand names that are free."""
    monkeypatch.setattr(object_rows, "_neighbours", lambda *_: pytest.fail("neighbours were asked"))
    namespace.create(table("orders"))
    namespace.create(view("big"))
    overlay = namespace.overlay()
    overlay.create(table("drafted"))
    overlay.drop(identifier("orders"), kind="table")

    assert catalog.kind(identifier("orders")) == "table"
    assert catalog.kind(identifier("big")) == "view"
    assert catalog.kind(identifier("free")) is None
    kinds = [
        overlay.catalog.kind(identifier(name)) for name in ("orders", "big", "drafted", "free")
    ]
    assert kinds == [None, "view", "table", None]
