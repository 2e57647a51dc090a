"""The name in Spark under which a definition is published: never that of a foreign table."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.catalog.errors import ObjectExistsError
from penstock.catalog.model.identifier import Identifier, quoted
from penstock.sql.publish.entries import SparkEntries
from penstock.sql.publish.text import PublishedName

__all__ = ["PublishedNames"]


class PublishedNames:
    """The names in Spark's databases, as far as they were requested; Spark ignores case.

    Definitions of `default_database` go into `home`, others into a database of their own's name, which is made if need
    be. Entries whose owner begins with `family` are of a session over the same catalog, and are taken over; those of
    `lasting` are for good, whoever takes them over. Not for many threads.
    """

    def __init__(
        self,
        entries: SparkEntries,
        *,
        family: str,
        lasting: str,
        home: str,
        default_database: str,
    ) -> None:
        self._entries = entries
        self._family = family
        self._lasting = lasting
        self._home = home
        self._default = default_database
        self._made: set[str] = set()
        self._for_good: set[PublishedName] = set()
        self._known: dict[str, set[str]] = {}

    def find(
        self, identifier: Identifier, published: Mapping[Identifier, PublishedName]
    ) -> PublishedName:
        """Find the name for a definition beside those `published`. Raises ObjectExistsError where it is taken."""
        home = identifier.database == self._default
        database = self._home if home else identifier.database
        place = PublishedName(database=database, name=identifier.name)
        if database == "global_temp" or (not home and database.lower() == self._home.lower()):
            raise ObjectExistsError(f"Spark's database {quoted(database)} is for other tables")
        if not home and self._entries.create_database(database):
            self._made.add(database)
        if identifier.name.lower() in self._names_in(database):
            owner = self._entries.owner_of(place)
            ours = owner is not None and owner.startswith(self._family)
            if not ours or _has(published, place):
                raise ObjectExistsError(f"Spark has a table {place} already, which stays as it is")
            if owner == self._lasting:
                self._for_good.add(place)
            self._entries.drop(place, whoever=True)
        return place

    def is_for_good(self, place: PublishedName) -> bool:
        """Return whether a name that was found is published permanently."""
        return place in self._for_good

    def take(self, place: PublishedName) -> None:
        """Add a name to the existing ones."""
        self._names_in(place.database).add(place.name.lower())

    def release(self, place: PublishedName) -> None:
        """Count a name among those that are free."""
        self._names_in(place.database).discard(place.name.lower())

    def forget(self) -> None:
        """Forget the names, to ask Spark again."""
        self._known.clear()

    def close(self) -> None:
        """Remove the databases that were made here, unless they have entries of others."""
        for database in self._made:
            self._entries.drop_database(database)

    def _names_in(self, database: str) -> set[str]:
        key = database.lower()
        if key not in self._known:
            self._known[key] = set(self._entries.names(database))
        return self._known[key]


def _has(published: Mapping[Identifier, PublishedName], place: PublishedName) -> bool:
    """Return whether the name is that of another definition."""
    wanted = str(place).lower()
    return any(str(other).lower() == wanted for other in published.values())
