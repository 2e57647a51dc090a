"""The clock of a case: functions of the current time return `now:` instead.

Such a call in an order (ROW_NUMBER ... ORDER BY PROCTIME()) is kept: it means the order of arrival. The planner
recognises columns that are PROCTIME(), and they get their value afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.catalog.errors import ConfigError, DefinitionError
from penstock.catalog.model.types import TimestampType
from penstock.connector.testing.values import plain_text, read_value
from penstock.sql.dialect import parse_query, to_text
from penstock.sql.expressions.expression import parse_expression
from penstock.sql.expressions.nondeterministic import find_nondeterministic
from penstock.sql.plan.analysed import AnalysedQuery

__all__ = ["FixedClock", "read_clock"]

_INSTANT = "CAST('{0}' AS TIMESTAMP_LTZ(3))"
_LOCAL = "CAST('{0}' AS TIMESTAMP(3))"
_DATE = "CAST('{1}' AS DATE)"
_TIME = "CAST('{2}' AS TIME)"
_NODES: Mapping[type[exp.Expr], str] = {
    exp.CurrentTimestamp: _INSTANT,
    exp.CurrentDate: _DATE,
    exp.CurrentTime: _TIME,
    exp.Localtime: _TIME,
    exp.Localtimestamp: _LOCAL,
}
_CALLS: Mapping[str, str] = {
    "NOW": _INSTANT,
    "PROCTIME": _INSTANT,
    "CURRENT_ROW_TIMESTAMP": _INSTANT,
    "LOCALTIMESTAMP": _LOCAL,
    "LOCALTIME": _TIME,
    "UNIX_TIMESTAMP": "UNIX_TIMESTAMP('{0}')",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedClock:
    """A time of day and date in the session's time zone, as texts of SQL."""

    timestamp: str
    date: str
    time: str

    def fixed(self, query: exp.Query | exp.Values) -> exp.Query | exp.Values:
        """Return a query that asks for no time."""
        found = self._replaced(query.copy())
        assert isinstance(found, exp.Query | exp.Values), "a call inside of it was replaced"
        return found

    def fixed_text(self, query: str) -> str:
        """Return the text of a view's query that asks for no time."""
        return to_text(self._replaced(parse_query(query)))

    def fixed_columns(self, analysed: AnalysedQuery) -> AnalysedQuery:
        """Fix the values of computed columns of tables."""
        leaves = tuple(
            replace(leaf, computed={k: self._fixed_column(v) for k, v in leaf.computed.items()})
            for leaf in analysed.leaves
        )
        return replace(analysed, leaves=leaves)

    def _fixed_column(self, expression: str) -> str:
        tree = parse_expression(expression)
        if next(find_nondeterministic(tree), None) is None:
            return expression
        return to_text(self._replaced(tree))

    def _replaced(self, tree: exp.Expr) -> exp.Expr:
        for call in list(find_nondeterministic(tree)):
            text = _NODES.get(type(call)) or _CALLS.get(call.name.upper())
            if text is None or call.find_ancestor(exp.Window) is not None:
                continue
            value = parse_expression(text.format(self.timestamp, self.date, self.time))
            if call is tree:
                return value
            call.replace(value)
        return tree


def read_clock(text: str) -> FixedClock:
    """Read `now:`. Raises ConfigError."""
    try:
        found = read_value(text, TimestampType(precision=3))
    except DefinitionError as error:
        raise ConfigError(
            f"`now`: {error.message}", hint="write it as SQL does: 2024-01-31 12:00:00"
        ) from error
    stamp = str(plain_text(found))
    return FixedClock(timestamp=stamp, date=stamp[:10], time=found.time().isoformat("seconds"))
