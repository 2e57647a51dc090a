"""Tests for the names that definitions are published under, over entries that are no Spark's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from penstock.catalog.errors import ObjectExistsError
from penstock.catalog.model.identifier import Identifier
from penstock.sql.publish.entries import PublishedNames
from penstock.sql.publish.text import PublishedName


@dataclass
class Entries:
    """Spark's entries as a test puts them there: place -> owner (None: not Penstock's)."""

    held: dict[PublishedName, str | None] = field(default_factory=dict)
    databases: list[str] = field(default_factory=lambda: ["default"])

    def names(self, database: str) -> frozenset[str]:
        return frozenset(
            published_name.name.lower()
            for published_name in self.held
            if published_name.database == database
        )

    def owner_of(self, published_name: PublishedName) -> str | None:
        return next(
            o for p, o in self.held.items() if str(p).lower() == str(published_name).lower()
        )

    def create_database(self, name: str) -> bool:
        if name in self.databases:
            return False
        self.databases.append(name)
        return True

    def drop_database(self, name: str) -> None:
        self.databases.remove(name)

    def drop(self, published_name: PublishedName, *, whoever: bool) -> None:
        assert whoever, "an entry of another session's"
        del self.held[published_name]


def names(entries: Entries) -> PublishedNames:
    return PublishedNames(
        cast("Any", entries),
        family="ours/",
        lasting="ours/durable",
        home="default",
        default_database="default_database",
    )


def named(name: str, database: str = "default_database") -> Identifier:
    return Identifier(catalog="default_catalog", database=database, name=name)


def published_name(name: str, database: str = "default") -> PublishedName:
    return PublishedName(database=database, name=name)


def test_the_default_database_is_that_which_spark_is_in() -> None:
    """Others are made for the time of the session, those that were there stay."""
    entries = Entries(databases=["default", "there"])
    found = names(entries)

    assert found.find(named("t"), {}) == published_name("t")
    assert found.find(named("t", "sales"), {}) == published_name("t", "sales")
    assert found.find(named("t", "there"), {}) == published_name("t", "there")
    assert entries.databases == ["default", "there", "sales"]
    found.close()
    assert entries.databases == ["default", "there"]


@pytest.mark.parametrize("owner", [None, "others/1"])
def test_a_name_that_is_somebody_elses_is_not_taken(owner: str | None) -> None:
    """Nor one that differs in case alone, which is the same to Spark."""
    found = names(Entries(held={published_name("t"): owner}))

    for name in ("t", "T"):
        with pytest.raises(ObjectExistsError, match=r"has a table .* already"):
            found.find(named(name), {})


def test_what_a_session_over_the_same_catalog_left_is_taken_over() -> None:
    """But not what this one has published itself, of a name that differs in case."""
    entries = Entries(held={published_name("t"): "ours/dead"})
    found = names(entries)

    assert found.find(named("t"), {}) == published_name("t")
    assert entries.held == {}
    entries.held[published_name("t")] = "ours/live"
    found.take(published_name("t"))
    with pytest.raises(ObjectExistsError):
        found.find(named("T"), {named("t"): published_name("t")})
    found.release(published_name("t"))
    assert found.find(named("T"), {}) == published_name("T")


def test_what_was_published_for_good_is_known() -> None:
    """A session that takes it over must leave it there."""
    found = names(
        Entries(held={published_name("a"): "ours/durable", published_name("b"): "ours/dead"})
    )

    assert found.is_for_good(found.find(named("a"), {}))
    assert not found.is_for_good(found.find(named("b"), {}))


@pytest.mark.parametrize("database", ["global_temp", "Default"])
def test_databases_of_sparks_own_are_left_alone(database: str) -> None:
    """Temporary views, and the one that the default database goes into."""
    with pytest.raises(ObjectExistsError, match="for other tables"):
        names(Entries()).find(named("t", database), {})


def test_what_others_have_made_since_is_seen_when_asked_anew() -> None:
    """Spark is asked for a database once in between."""
    entries = Entries()
    found = names(entries)
    found.find(named("t"), {})
    entries.held[published_name("t")] = None

    assert found.find(named("t"), {}) == published_name("t")
    found.forget()
    with pytest.raises(ObjectExistsError):
        found.find(named("t"), {})
