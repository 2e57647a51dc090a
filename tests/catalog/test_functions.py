"""Functions: their names, what hides what, and the store that keeps them."""

from __future__ import annotations

import pytest

from penstock.catalog.definitions.resolver import FunctionNames, Namespace
from penstock.catalog.errors import DefinitionError, ObjectExistsError, UnknownObjectError
from penstock.catalog.model.function import Function, Language, function_from_json, function_to_json
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.store.sql_catalog import SqlCatalog

HERE = ("default_catalog", "default_database")


def function(code: str, name: str = "f", **changes: object) -> Function:
    """A function in Python."""
    identifier = Identifier(catalog=HERE[0], database=HERE[1], name=name)
    return Function(identifier=identifier, code=code, language=Language.PYTHON, **changes)  # type: ignore[arg-type]


def names(catalog: SqlCatalog) -> FunctionNames:
    """A new session's view."""
    return Namespace(catalog).functions


def test_a_function_lives_as_long_as_its_kind_says(catalog: SqlCatalog) -> None:
    """In the catalog for all sessions, or in one; a temporary one hides it, a system one both."""
    session = names(catalog)
    session.create(function("m.stored"))
    session.create(function("m.temporary", temporary=True))
    hidden = session.visible(*HERE)["f"]
    session.create(function("m.system", temporary=True, system=True))

    assert hidden.code == "m.temporary"
    assert session.visible(*HERE)["f"].code == "m.system"
    assert list(session.visible("default_catalog", "other")) == ["f"]
    assert names(catalog).visible(*HERE)["f"] == function("m.stored")


def test_a_draft_changes_nothing(catalog: SqlCatalog) -> None:
    """Statements are tried on overlays, which know what was tried before."""
    session = names(catalog)
    session.create(function("m.g", name="g"))
    overlay = session.overlay()
    overlay.create(function("m.f"))
    overlay.drop(function("m.g", name="g").identifier, temporary=False, system=False)

    assert list(overlay.overlay().visible(*HERE)) == ["f"]
    assert list(session.visible(*HERE)) == ["g"]


def test_a_name_is_taken_once_and_has_to_be_there_to_go(catalog: SqlCatalog) -> None:
    """The nearest name is said."""
    session = names(catalog)
    session.create(function("m.f", name="discount"))
    session.create(function("m.g", name="discount"), if_not_exists=True)
    there = function("m.f", name="discount").identifier
    missing = function("m.f", name="discont")

    with pytest.raises(ObjectExistsError, match="there is a function"):
        session.create(function("m.g", name="discount"))
    with pytest.raises(UnknownObjectError) as caught:
        session.find(missing.identifier)
    with pytest.raises(UnknownObjectError):
        session.alter(missing)
    session.alter(missing, if_exists=True)
    assert caught.value.hint == "did you mean 'discount'?"
    assert session.find(there).code == "m.f"


def test_a_function_that_another_changed_meanwhile_is_left_alone(catalog: SqlCatalog) -> None:
    """Made by two, or changed by two, or dropped by two: one is told."""
    (first, second) = (catalog.functions, catalog.functions)
    first.put(function("m.f"))
    (before,) = first.listed()
    second.put(function("m.g"), before=before)
    with pytest.raises(ObjectExistsError, match="there is a function"):
        first.put(function("m.h"))
    with pytest.raises(
        DefinitionError, match=r"changed by another process in the meantime: it was changed by \S+@"
    ):
        first.put(function("m.h"), before=before)
    dropped = [second.remove(before.identifier), first.remove(before.identifier)]
    with pytest.raises(UnknownObjectError) as caught:
        first.put(function("m.h"), before=before)

    assert dropped == [True, False]
    assert (caught.value.hint or "").startswith("it was dropped by ")
    assert [(c.action.value, c.version) for c in catalog.history(before.identifier)] == [
        ("drop", 3),
        ("replace", 2),
        ("create", 1),
    ]


@pytest.mark.parametrize("code", ["", "f", "m.", ".f", "m.1"])
def test_python_code_is_a_path(code: str) -> None:
    """module.attribute."""
    with pytest.raises(DefinitionError):
        function(code)


def test_a_function_survives_its_json() -> None:
    """All but what only a session has."""
    whole = function("a.b.c", jars=("x.jar", "y.jar"))

    assert function_from_json(function_to_json(whole)) == whole
