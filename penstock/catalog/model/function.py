"""A function that a user registers, as a value: where its code is, and what loads with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.catalog.errors import CatalogError, DefinitionError
from penstock.catalog.model.identifier import Identifier

VERSION = 1


class Language(StrEnum):
    """What a function is written in."""

    JAVA = "JAVA"
    PYTHON = "PYTHON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function's definition. Its name is kept in lower case: Flink does not tell cases of functions apart.

    `code` is the name of a Java class, or the path `module.attribute` of something in Python; `jars` are paths that
    are added to the session first. `system`: a temporary one that needs no catalog and no database.
    `version`: as in `contract.Catalog`.
    """

    identifier: Identifier
    code: str
    language: Language = Language.JAVA
    jars: tuple[str, ...] = ()
    temporary: bool = False
    system: bool = False
    version: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.code.strip():
            raise DefinitionError(
                "a function names its code: AS 'module.attribute' LANGUAGE PYTHON"
            )
        module, _, attribute = self.code.rpartition(".")
        if self.language is Language.PYTHON and not (module and attribute.isidentifier()):
            raise DefinitionError(
                f"'{self.code}' is no path of a Python function",
                hint="write AS 'module.attribute': the function attribute of the module module",
            )

    @property
    def name(self) -> str:
        """The name that queries call it by, in lower case."""
        return self.identifier.name


def function_to_json(function: Function) -> dict[str, Any]:
    """Write a definition as plain values."""
    identifier = function.identifier
    return {
        "v": VERSION,
        "name": [identifier.catalog, identifier.database, identifier.name],
        "code": function.code,
        "language": function.language.value,
        "jars": list(function.jars),
    }


def function_from_json(value: Mapping[str, Any]) -> Function:
    """Read a definition. Raises CatalogError for a version that is not known here."""
    if value.get("v") != VERSION:
        raise CatalogError(
            f"a function was stored by another version of Penstock (format {value.get('v')!r})",
            hint="use that version or a newer one",
        )
    catalog, database, name = value["name"]
    return Function(
        identifier=Identifier(catalog=catalog, database=database, name=name),
        code=value["code"],
        language=Language(value["language"]),
        jars=tuple(value["jars"]),
    )
