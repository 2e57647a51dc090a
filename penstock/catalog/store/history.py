"""The history as rows, each function within the caller's transaction. A change and its row are written together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
)

from penstock.catalog.definitions.contract import (
    Action,
    Author,
    Change,
    ChangeKind,
    Definition,
    Unreadable,
    this_author,
)
from penstock.catalog.errors import InputError
from penstock.catalog.migrations import HISTORY
from penstock.catalog.model import codec
from penstock.catalog.model.function import function_from_json
from penstock.catalog.store.database import now_ms

RELATIONS = (ChangeKind.TABLE, ChangeKind.VIEW)
"""They share their names."""


def next_version(
    connection: Connection, kind: ChangeKind, *names: tuple[str, ...], found: int | None = None
) -> int:
    """Return the version that a change of one of `names` makes.

    `found` is the present one: what an older Penstock wrote has no history.
    """
    asked = or_(*(_about(name) for name in names))
    newest = select(func.max(HISTORY.c.version)).where(asked, HISTORY.c.kind.in_(_space(kind)))
    return max(connection.scalar(newest) or 0, found or 0) + 1


def record(
    connection: Connection,
    name: tuple[str, ...],
    kind: ChangeKind,
    action: Action,
    *,
    version: int,
    before: str | None = None,
    after: str | None = None,
    renamed_to: tuple[str, ...] = (),
) -> None:
    """Write down a change by this process; `before` and `after` are definitions as they are kept, in JSON."""
    author = this_author()
    row = {
        **dict(zip(_NAME, _padded(name), strict=True)),
        **(dict(zip(_TO, _padded(renamed_to), strict=True)) if renamed_to else {}),
        "kind": kind,
        "action": action,
        "version": version,
        "changed_ms": now_ms(connection),
        "changed_by": author.name[:512],
        "process": author.process,
        "before": before,
        "after": after,
    }
    connection.execute(insert(HISTORY).values(row))


def changes(
    connection: Connection, name: tuple[str, ...] | None, limit: int | None
) -> list[Change]:
    """List the changes of a name, or all, the newest first; at most `limit`."""
    wanted = select(HISTORY).order_by(HISTORY.c.change_id.desc()).limit(limit)
    if name is not None:
        wanted = wanted.where(_about(name))
    return [_change(row) for row in connection.execute(wanted).mappings()]


def last_change(connection: Connection, name: tuple[str, ...], kind: ChangeKind) -> Change | None:
    """Return the newest change of a name; None where nothing is known."""
    wanted = (
        select(HISTORY)
        .where(_about(name), HISTORY.c.kind.in_(_space(kind)))
        .order_by(HISTORY.c.change_id.desc())
        .limit(1)
    )
    row = connection.execute(wanted).mappings().one_or_none()
    return None if row is None else _change(row)


def purge(
    connection: Connection, name: tuple[str, ...] | None, age_ms: int, *, counted_only: bool
) -> int:
    """Remove the changes of a name, or all, that are older than an age; returns their number.

    One row for each name stays: who removed them and when, and the version, which keeps growing.
    """
    old = HISTORY.c.changed_ms <= now_ms(connection) - age_ms
    wanted = and_(old, HISTORY.c.action != Action.PURGE, *(() if name is None else (_about(name),)))
    count = connection.scalar(select(func.count()).select_from(HISTORY).where(wanted)) or 0
    if counted_only or not count:
        return count
    named = [HISTORY.c[column] for column in (*_NAME, "kind")]
    newest = func.max(HISTORY.c.version).label("newest")
    purged = connection.execute(select(*named, newest).where(wanted).group_by(*named)).all()
    renamed = connection.execute(
        select(*(HISTORY.c[column] for column in _TO), HISTORY.c.kind, newest)
        .where(wanted, HISTORY.c.to_object.is_not(None))
        .group_by(*(HISTORY.c[column] for column in _TO), HISTORY.c.kind)
    ).all()
    connection.execute(delete(HISTORY).where(wanted))
    for *parts, kind, version in {*map(tuple, purged), *map(tuple, renamed)}:
        own = tuple(part for part in parts if part)
        record(connection, own, ChangeKind(kind), Action.PURGE, version=version)
    return count


_NAME = ("catalog_name", "database_name", "object_name")
_TO = ("to_catalog", "to_database", "to_object")


def _padded(name: tuple[str, ...]) -> tuple[str, ...]:
    return (*name, "", "")[:3]


def _space(kind: ChangeKind) -> tuple[ChangeKind, ...]:
    return RELATIONS if kind in RELATIONS else (kind,)


def _about(name: tuple[str, ...]) -> ColumnElement[bool]:
    """What was done to a name, or gave something this name."""
    parts = _padded(name)
    own = and_(*(HISTORY.c[column] == part for column, part in zip(_NAME, parts, strict=True)))
    got = and_(*(HISTORY.c[column] == part for column, part in zip(_TO, parts, strict=True)))
    return or_(own, got)


def _change(row: RowMapping) -> Change:
    name = tuple(part for column in _NAME if (part := row[column]))
    kind = ChangeKind(row["kind"])
    read = partial(_decoded, _READERS[kind], name)
    return Change(
        name=name,
        kind=kind,
        action=Action(row["action"]),
        version=row["version"],
        at_ms=row["changed_ms"],
        author=Author(name=row["changed_by"], process=row["process"]),
        before=read(row["before"]),
        after=read(row["after"]),
        renamed_to=None if row["to_object"] is None else tuple(row[column] for column in _TO),
    )


Reader = Callable[[tuple[str, ...], Mapping[str, Any]], Definition]
_READERS: dict[ChangeKind, Reader] = {
    ChangeKind.TABLE: lambda _, value: codec.table_from_json(value),
    ChangeKind.VIEW: lambda _, value: codec.table_from_json(value),
    ChangeKind.FUNCTION: lambda _, value: function_from_json(value),
    ChangeKind.DATABASE: lambda name, value: codec.database_from_json(name[0], name[1], value),
    ChangeKind.CATALOG: lambda name, value: codec.catalog_from_json(name[0], value),
}


def _decoded(
    read: Reader, name: tuple[str, ...], text: str | None
) -> Definition | Unreadable | None:
    if text is None:
        return None
    try:
        return read(name, json.loads(text))
    except (InputError, ValueError, KeyError, TypeError) as error:
        # one that a newer, or a much older, Penstock wrote leaves the others readable
        return Unreadable(reason=f"{type(error).__name__}: {error}")
