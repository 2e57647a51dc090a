"""Tables and views as values."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.catalog.distribution import Distribution
from penstock.catalog.errors import DefinitionError, did_you_mean
from penstock.catalog.identifier import Identifier, quote
from penstock.catalog.materialization import Materialization
from penstock.catalog.redaction import redact
from penstock.catalog.schema import Schema

__all__ = ["Table", "View"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table's definition. `options` are those of WITH, in their order. `version`: as in `contract.Catalog`."""

    identifier: Identifier
    schema: Schema
    options: tuple[tuple[str, str], ...] = ()
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    temporary: bool = False
    distribution: Distribution | None = None
    materialization: Materialization | None = None
    version: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._check_declared("PARTITIONED BY", self.partition_keys)
        self._check_declared(
            "DISTRIBUTED BY", self.distribution.columns if self.distribution else ()
        )
        if len(set(self.partition_keys)) < len(self.partition_keys):
            raise DefinitionError("PARTITIONED BY names a column twice")

    def _check_declared(self, clause: str, columns: tuple[str, ...]) -> None:
        names = self.schema.names
        for name in columns:
            if name not in names:
                raise DefinitionError(
                    f"{clause} names column {quote(name)}, which is not declared",
                    hint=did_you_mean(name, names),
                )

    @property
    def option_map(self) -> dict[str, str]:
        """The options by key."""
        return dict(self.options)

    @property
    def connector(self) -> str | None:
        """The `connector` option."""
        return self.option_map.get("connector")

    def __repr__(self) -> str:
        # a table ends up in errors and logs, its secrets may not
        shown = redact(self.option_map)
        return f"Table({self.identifier}, columns={list(self.schema.names)}, options={shown})"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view's definition. `query` is Flink SQL; `columns` rename its columns where they are given.

    `column_comments` are as many as `columns`, or none. `version`: as in `contract.Catalog`.
    """

    identifier: Identifier
    query: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    temporary: bool = False
    version: int | None = field(default=None, compare=False, repr=False)
    column_comments: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        assert not self.column_comments or len(self.column_comments) == len(self.columns), (
            "a comment without a column"
        )
