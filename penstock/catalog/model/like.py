"""What CREATE TABLE ... LIKE takes over from another table, feature by feature (Flink: MergeTableLikeUtil)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model.table import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    Schema,
    Table,
    TableDistribution,
)


class Strategy(StrEnum):
    """INCLUDING: the other table's, and an error where both have it; OVERWRITING: our own wins."""

    INCLUDING = "INCLUDING"
    EXCLUDING = "EXCLUDING"
    OVERWRITING = "OVERWRITING"


class Feature(StrEnum):
    """What can be taken over; physical columns always are."""

    CONSTRAINTS = "CONSTRAINTS"
    DISTRIBUTION = "DISTRIBUTION"
    GENERATED = "GENERATED"
    METADATA = "METADATA"
    OPTIONS = "OPTIONS"
    PARTITIONS = "PARTITIONS"
    WATERMARKS = "WATERMARKS"


ALL = "ALL"


def _defaults() -> dict[Feature, Strategy]:
    return dict.fromkeys(Feature, Strategy.INCLUDING) | {Feature.OPTIONS: Strategy.OVERWRITING}


@dataclass(frozen=True, slots=True, kw_only=True)
class LikeOptions:
    """A way for each feature. Its methods raise DefinitionError where both tables have what only one may."""

    strategies: dict[Feature, Strategy] = field(default_factory=_defaults)

    @classmethod
    def of(cls, written: Iterable[tuple[str, str]]) -> LikeOptions:
        """Read pairs such as (INCLUDING, ALL): ALL sets every feature, the others then change one."""
        found = _defaults()
        pairs = list(written)
        for strategy, feature in pairs:
            if feature == ALL:
                found = dict.fromkeys(Feature, Strategy(strategy))
        found |= {Feature(f): Strategy(strategy) for strategy, f in pairs if f != ALL}
        return cls(strategies=found)

    def takes(self, feature: Feature) -> bool:
        """Return whether the other table's is taken over at all."""
        return self.strategies[feature] != Strategy.EXCLUDING

    def overwrites(self, feature: Feature) -> bool:
        """Return whether our own takes the place of the other table's."""
        return self.strategies[feature] == Strategy.OVERWRITING

    def columns(self, source: Schema) -> tuple[Column, ...]:
        """The columns that are taken over, in order."""
        return tuple(column for column in source.columns if self._takes_column(column))

    def check_column(self, own: Column, other: Column) -> None:
        """Check that a column may take the place of one of the same name."""
        match own:
            case PhysicalColumn():
                raise DefinitionError(
                    f"there is a column '{own.name}' in the other table already",
                    hint="its physical columns are always taken over: leave this one out",
                )
            case ComputedColumn():
                kind, feature = "computed", Feature.GENERATED
            case MetadataColumn():
                kind, feature = "metadata", Feature.METADATA
            case _:
                assert_never(own)
        if type(own) is not type(other):
            raise DefinitionError(
                f"there is a column '{own.name}' in the other table already",
                hint=f"a {kind} column can take the place of another {kind} column only",
            )
        if not self.overwrites(feature):
            raise _twice(f"a {kind} column '{own.name}'", feature, overwriting=True)

    def watermark_taken(self, source: Schema, *, own: bool) -> bool:
        """Return whether the other table's watermark is taken over; `own`: there is one of our own."""
        if source.watermark is None or not self.takes(Feature.WATERMARKS):
            return False
        if own and not self.overwrites(Feature.WATERMARKS):
            raise _twice("a watermark", Feature.WATERMARKS, overwriting=True)
        return not own

    def key_taken(self, source: Schema, *, own: bool) -> bool:
        """Return whether the other table's primary key is taken over; `own`: there is one of our own."""
        if source.primary_key is None or not self.takes(Feature.CONSTRAINTS):
            return False
        if own:
            raise _twice("a primary key", Feature.CONSTRAINTS)
        return True

    def partition_keys(self, source: Table, own: tuple[str, ...]) -> tuple[str, ...]:
        """The partition keys of the new table."""
        if not source.partition_keys or not self.takes(Feature.PARTITIONS):
            return own
        if own:
            raise _twice("a PARTITIONED BY", Feature.PARTITIONS)
        return source.partition_keys

    def distribution(
        self, source: Table, own: TableDistribution | None
    ) -> TableDistribution | None:
        """The distribution of the new table."""
        if source.distribution is None or not self.takes(Feature.DISTRIBUTION):
            return own
        if own is not None:
            raise _twice("a distribution", Feature.DISTRIBUTION)
        return source.distribution

    def check_option(self, key: str, source: Table) -> None:
        """Check that an option of our own may stand beside those of the other table."""
        taken = self.takes(Feature.OPTIONS) and key in source.option_map
        if taken and not self.overwrites(Feature.OPTIONS):
            raise _twice(f"an option '{key}'", Feature.OPTIONS, overwriting=True)

    def options(
        self, source: Table, own: tuple[tuple[str, str], ...]
    ) -> tuple[tuple[str, str], ...]:
        """The options of the new table: the other's first, each with our own value where we have one."""
        taken = source.option_map if self.takes(Feature.OPTIONS) else {}
        return tuple((taken | dict(own)).items())

    def _takes_column(self, column: Column) -> bool:
        match column:
            case PhysicalColumn():
                return True
            case ComputedColumn():
                return self.takes(Feature.GENERATED)
            case MetadataColumn():
                return self.takes(Feature.METADATA)
        assert_never(column)


def _twice(what: str, feature: Feature, *, overwriting: bool = False) -> DefinitionError:
    words = [f"EXCLUDING {feature}"] + ([f"OVERWRITING {feature}"] if overwriting else [])
    return DefinitionError(
        f"the other table has {what} already", hint=f"write LIKE ... ({' or '.join(words)})"
    )
