"""The full name of a table or view: catalog, database, name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.catalog.errors import DefinitionError

MAX_LENGTH = 255
"""Characters of one part of a name that is kept in a database."""

UNREAD = r"\u0024{"
"""`${` as Spark's variable substitution does not find it, and a literal still means it."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.\s]+)")


_DEFAULT = "default_catalog.default_database."


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Identifier:
    """A full name; compared exactly, as Flink's names are case-sensitive."""

    catalog: str
    database: str
    name: str

    def __post_init__(self) -> None:
        if not (self.catalog and self.database and self.name):
            raise DefinitionError("a name must not be empty")

    def __str__(self) -> str:
        return ".".join(quote(part) for part in (self.catalog, self.database, self.name))


def short_name(identifier: Identifier | str) -> str:
    """Write a full name without the default catalog and database."""
    return str(identifier).removeprefix(_DEFAULT)


def quote(name: str) -> str:
    """Write a name for people: in backticks where it would be read as something else without them."""
    return name if _PLAIN.match(name) else quoted(name)


def quoted(name: str) -> str:
    """Write a name as SQL, in backticks: a reserved word is a name like any other."""
    return "`" + name.replace("`", "``") + "`"


def spark_literal(text: str) -> str:
    """Write a text as a literal of Spark SQL, in which Spark finds no `${...}` to put a variable's value for.

    Spark looks for them in the whole text of a statement before it reads escapes.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped.replace('${', UNREAD)}'"


def check_storable(name: Iterable[str]) -> None:
    """Refuse a name that a database cannot keep in its columns. Raises DefinitionError."""
    for part in name:
        if len(part) > MAX_LENGTH:
            raise DefinitionError(
                f"the name {part[:20]!r}... has {len(part)} characters",
                hint=f"a name that the catalog keeps has at most {MAX_LENGTH}",
            )
        if "\0" in part:
            raise DefinitionError(f"the name {part!r} has a character of code 0 in it")


def name_clash(names: Iterable[str]) -> str | None:
    """Describe which two names of one list conflict; None when none do.

    Flink distinguishes `id` and `ID`, Spark does not (spark.sql.caseSensitive is false), and both read our tables.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.lower())
        if other == name:
            return f"{quote(name)} is declared twice"
        if other is not None:
            return f"{quote(other)} and {quote(name)} differ in case only, which Spark does not tell apart"
        seen[name.lower()] = name
    return None


def parse_identifier(text: str) -> tuple[str, ...]:
    """Split `a.b.c`, quoted or not, into one to three parts. Raises DefinitionError."""
    parts: list[str] = []
    position = 0
    while True:
        found = _PART.match(text, position)
        if found is None:
            break
        parts.append(found.group(1).replace("``", "`") if found.group(1) else found.group(2))
        position = found.end()
        if position == len(text):
            if len(parts) <= 3:
                return tuple(parts)
            break
        if text[position] != ".":
            break
        position += 1
    raise DefinitionError(
        f"{text!r} is not a name", hint="a name is [catalog.][database.]name, quoted as `name`"
    )
