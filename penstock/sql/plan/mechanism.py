"""How a query whose results change is run: which mechanism, by which key, with what state; and that in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from penstock.catalog.errors import Span
from penstock.connector.changelog import ChangelogMode

__all__ = ["Mechanism", "Way", "describe_changes", "describe_mechanism"]


class Way(StrEnum):
    """Updating operators. Spark's update mode runs the first five: a key's newest row replaces the one before.

    The others, and those again, are stages of maintained queries.
    """

    AGGREGATE = "aggregate"
    RETRACTING_AGGREGATE = "retracting aggregate"
    FIRST_ROW = "first row"
    LAST_ROW = "last row"
    TOP_N = "Top-N"
    DISTINCT = "distinct rows"
    JOIN = "join"
    TEMPORAL_JOIN = "temporal join"
    OVER = "OVER aggregation"
    SET = "set operation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """One updating operator of a query.

    `key` are the columns (as the operator gives them) of which it gives one row each, `state` what is kept for each
    key, in words. `span` is the operator's place in the text.
    """

    way: Way
    key: tuple[str, ...]
    state: str
    span: Span | None = None

    @property
    def operator(self) -> str:
        """Name the operator, as messages do."""
        match self.way:
            case Way.AGGREGATE | Way.RETRACTING_AGGREGATE:
                return "aggregation"
            case Way.FIRST_ROW | Way.LAST_ROW:
                return "deduplication"
            case Way.TOP_N:
                return "Top-N"
            case Way.DISTINCT:
                return "DISTINCT"
            case Way.JOIN:
                return "join"
            case Way.TEMPORAL_JOIN:
                return "temporal join"
            case Way.OVER:
                return "OVER aggregation"
            case Way.SET:
                return "set operation"
            case _:
                assert_never(self.way)

    @property
    def named(self) -> str:
        """The operator with its article."""
        return f"{'an' if self.operator.startswith(('a', 'O')) else 'a'} {self.operator}"


def describe_mechanism(mechanism: Mechanism) -> tuple[str, ...]:
    """Give the lines that EXPLAIN and `penstock plan` show for an operator in Spark's update mode."""
    key = ", ".join(mechanism.key) or "none: one row for the whole table"
    return (
        f"updating: {_WORDS[mechanism.way]} (Spark's update mode; a key's newest row replaces the one before)",
        f"  key: {key}",
        f"  state: {mechanism.state}, for each key that was ever seen",
    )


_WORDS = {
    Way.AGGREGATE: "aggregation without a window",
    Way.RETRACTING_AGGREGATE: "aggregation that takes rows back again",
    Way.FIRST_ROW: "the first row of each key",
    Way.LAST_ROW: "the last row of each key",
    Way.TOP_N: "the best rows of each key, all of them sent again when one changes",
}


def describe_changes(changes: ChangelogMode, key: Sequence[str] | None) -> str:
    """Say in a line what the rows are that reach the sink."""
    match changes:
        case ChangelogMode.INSERT_ONLY:
            return "rows to the sink: inserts"
        case ChangelogMode.UPSERT:
            return f"rows to the sink: upserts and deletes by ({', '.join(key or ())})"
        case ChangelogMode.ALL:
            return "rows to the sink: inserts, updates with the row before and after, deletes"
        case _:
            assert_never(changes)
