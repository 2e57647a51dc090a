"""The tables of a case with fixtures instead of their connectors: nothing outside the case's folder is touched."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.catalog.definitions.encryption import without_references
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import OptionError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table, View
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
from penstock.connector.testing.options import FixtureSettings, as_fixture
from penstock.sql.testing.fixed_clock import FixedClock

__all__ = ["TableSubstitutes", "all_tables", "local_store_of"]

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
        """Return a draft of a namespace in which every table is its double."""
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
            table = store.moved(table, folder=folder, name=self.place(table.identifier))
        if table.identifier in self.shared and table.identifier not in self.changes:
            return table
        settings = FixtureSettings(
            folder=str(self.records(table.identifier)),
            place=self.place(table.identifier),
            ends=self.ends,
            goes_idle=self.goes_idle,
            writes=table.identifier in self.shared,
        )
        return as_fixture(table, settings)

    def place(self, identifier: Identifier) -> str:
        """Name what is written into a table."""
        return f"{self.run}/{identifier}"

    def forget(self, tables: Iterable[Table]) -> None:
        """Drop what was written into tables and kept in memory."""
        for table in tables:
            forget(self.place(table.identifier))

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
            for key, kept in _POLICIES.items():
                if options.get(key) == kept:
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
    kept = [
        catalog.get(identifier)
        for identifier in (*catalog.tables(), *catalog.views())
        if identifier not in hidden
    ]
    return [*namespace.temporary(), *kept]


def local_store_of(table: Table) -> LocalStore | None:
    """Return what keeps the rows of a table in a test; None where they are captured, or nothing knows the table."""
    try:
        return connector_of(table, project=Path()).local_store
    except OptionError:
        return None
