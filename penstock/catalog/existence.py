"""When a definition may be added or removed: the rules that the store and drafts over it share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.catalog.contract import ObjectKind, kind_of
from penstock.catalog.errors import (
    ObjectExistsError,
    UnknownObjectError,
    did_you_mean,
    known_are,
)
from penstock.catalog.identifier import Identifier
from penstock.catalog.table import Table, View

__all__ = ["may_create", "may_drop", "may_rename", "unknown_object"]


def may_create(
    obj: Table | View, found: ObjectKind | None, *, if_not_exists: bool, replace: bool
) -> bool:
    """Tell whether `obj` is to be written, given the kind of what has its name. Raises ObjectExistsError."""
    if found is None or (replace and found == kind_of(obj)):
        return True
    if if_not_exists:
        return False
    word = f"{'temporary ' if obj.temporary else ''}{found}"
    raise ObjectExistsError(
        f"there is a {word} {obj.identifier} already",
        hint=f"DROP {word.upper()} {obj.identifier} first, or write CREATE ... IF NOT EXISTS",
    )


def may_drop(
    identifier: Identifier,
    kind: ObjectKind,
    found: ObjectKind | None,
    *,
    if_exists: bool,
    known: Callable[[], Iterable[Identifier]],
) -> bool:
    """Tell whether there is something to remove. Raises UnknownObjectError; a view is no table, as in Flink."""
    if found == kind:
        return True
    if if_exists:
        return False
    if found is None:
        raise unknown_object(identifier, known())
    raise UnknownObjectError(
        f"{identifier} is a {found}, not a {kind}", hint=f"DROP {found.upper()} {identifier}"
    )


def may_rename(after: Table | View, found: ObjectKind | None) -> None:
    """Check that a new name is free, given the kind of what has it. Raises ObjectExistsError."""
    if found is not None:
        raise ObjectExistsError(
            f"there is a {found} {after.identifier} already", hint="choose another name"
        )


def unknown_object(identifier: Identifier, known: Iterable[Identifier]) -> UnknownObjectError:
    """Make the error for a name that stands for nothing, with the nearest of `known`.

    `known` are those of its database, and may have some of others: one of the same name is told.
    """
    known = list(known)
    place = (identifier.catalog, identifier.database)
    names = sorted({other.name for other in known if (other.catalog, other.database) == place})
    elsewhere = sorted(other for other in known if other.name == identifier.name)
    if elsewhere:
        hint = f"did you mean {elsewhere[0]}?"
    elif names:
        hint = did_you_mean(identifier.name, names) or known_are(names, all_by="SHOW TABLES")
    else:
        hint = "nothing has been created there yet"
    return UnknownObjectError(f"there is no table or view {identifier}", hint=hint)
