"""The tables of a case with fixtures instead of their connectors, and the clock of a case.

Nothing outside the case's folder is touched; functions of the current time return `now:`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sqlglot import exp

from penstock.catalog.definitions.encryption import without_references
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError, DefinitionError, OptionError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table, View
from penstock.catalog.model.types import TimestampType
from penstock.connector.capabilities import LocalStore
from penstock.connector.options.bad_records import (
    BAD_RECORDS,
    DEAD_LETTER_DELIVERY,
    DEAD_LETTER_TOPIC,
    BadRecordPolicy,
)
from penstock.connector.options.bad_records import DEAD_LETTER_PATH as LETTER_PATH
from penstock.connector.options.watermark import ON_FUTURE, SCAN_DEAD_LETTER_PATH, OnFuture
from penstock.connector.registry import connector_of
from penstock.connector.testing.captured import forget
from penstock.connector.testing.connector import FixtureSettings, as_fixture
from penstock.connector.testing.values import plain_text, read_value
from penstock.sql.dialect import parse_query, to_text
from penstock.sql.expressions.expression import find_nondeterministic, parse_expression
from penstock.sql.plan.analysed import AnalysedQuery

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


_POLICIES = {BAD_RECORDS.key: BadRecordPolicy.DEAD_LETTER, ON_FUTURE.key: OnFuture.DEAD_LETTER}
_LETTERS = frozenset(
    option.key for option in (LETTER_PATH, DEAD_LETTER_TOPIC, DEAD_LETTER_DELIVERY)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSubstitutes:
    """Makes the doubles of one case. `folder` is the case's own; `run` identifies its tables in memory.

    `changes` are the tables whose changes are checked, `shared` those that statements write and others read: these are
    really written. `keeps_letters`: dead letters are checked; else bad records are only counted.
    """

    folder: Path
    run: str
    ends: bool | None
    goes_idle: bool
    changes: Collection[Identifier]
    shared: Collection[Identifier]
    keeps_letters: bool
    clock: FixedClock | None

    def stage(self, namespace: Namespace) -> Namespace:
        """Return an overlay of a namespace in which every table is its double."""
        staged = namespace.overlay()
        for found in all_tables(namespace):
            double = self.of(found) if isinstance(found, Table) else self._view(found)
            if double != found:
                staged.replace(found, double)
        return staged

    def of(self, table: Table) -> Table:
        """Return the double of a table. Dead letters go beside the checkpoint, where the case finds them."""
        table = without_references(self._with_own_letters(table))
        store = local_store_of(table)
        if store is not None:
            folder = self._folder_of(table.identifier, "tables")
            table = store.moved(table, folder=folder, name=self.location(table.identifier))
        if table.identifier in self.shared and table.identifier not in self.changes:
            return table
        settings = FixtureSettings(
            folder=str(self.records(table.identifier)),
            location=self.location(table.identifier),
            ends=self.ends,
            goes_idle=self.goes_idle,
            writes=table.identifier in self.shared,
        )
        return as_fixture(table, settings)

    def location(self, identifier: Identifier) -> str:
        """Name what is written into a table."""
        return f"{self.run}/{identifier}"

    def forget(self, tables: Iterable[Table]) -> None:
        """Drop what was written into tables and kept in memory."""
        for table in tables:
            forget(self.location(table.identifier))

    def records(self, identifier: Identifier) -> Path:
        """Return the folder of the records of a table."""
        return self._folder_of(identifier, "records")

    def _with_own_letters(self, table: Table) -> Table:
        options = {key: value for key, value in table.options if key not in _LETTERS}
        if self.keeps_letters:
            if SCAN_DEAD_LETTER_PATH.key in options:
                options[SCAN_DEAD_LETTER_PATH.key] = str(self.folder / "letters-of-the-future")
        else:
            options.pop(SCAN_DEAD_LETTER_PATH.key, None)
            for key, value in _POLICIES.items():
                if options.get(key) == value:
                    options[key] = "skip"
        return replace(table, options=tuple(options.items()))

    def _folder_of(self, identifier: Identifier, kind: str) -> Path:
        return self.folder / kind / identifier.catalog / identifier.database / identifier.name

    def _view(self, view: View) -> View:
        if self.clock is None:
            return view
        return replace(view, query=self.clock.fixed_text(view.query))


def all_tables(namespace: Namespace) -> list[Table | View]:
    """List every table and view that statements may name; of a temporary one and what it hides, the temporary one."""
    hidden = {found.identifier for found in namespace.temporary()}
    catalog = namespace.catalog
    others = [
        catalog.get(identifier)
        for identifier in (*catalog.tables(), *catalog.views())
        if identifier not in hidden
    ]
    return [*namespace.temporary(), *others]


def local_store_of(table: Table) -> LocalStore | None:
    """Return what keeps the rows of a table in a test; None where they are captured, or nothing knows the table."""
    try:
        return connector_of(table, project=Path()).local_store
    except OptionError:
        return None
