"""What the processes of a test do to the catalog that they share. Each is given the catalog's URL."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

from penstock.catalog.definitions.leases import this_process
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    ObjectExistsError,
    PipelineLockedError,
)
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.examples import identifier, table
from tests.sql.sql_objects import run


def create_many(url: str, prefix: str) -> None:
    """Create 15 tables that nobody else creates."""
    catalog = SqlCatalog(url)
    for number in range(15):
        catalog.create(table(f"{prefix}{number}"))


def create_same(url: str) -> int:
    """Create the tables that everybody creates; gives how many were this one's."""
    catalog = SqlCatalog(url)
    made = 0
    for number in range(15):
        with suppress(ObjectExistsError):
            catalog.create(table(f"t{number}"))
            made += 1
    return made


def change_one(url: str, prefix: str) -> None:
    """Add ten options to one table, which others change as well."""
    catalog = SqlCatalog(url)
    for number in range(10):
        done = False
        while not done:
            before = catalog.get(identifier("orders"))
            option = (f"{prefix}{number}", "x")
            # another was first: look again
            with suppress(DefinitionError):
                catalog.replace(before, replace(before, options=(*before.options, option)))  # type: ignore[union-attr]
                done = True


def claim(pipe: Connection, start: Event, url: str) -> None:
    """Claim 20 pipelines, say how many this one got, and hold them until told to end."""
    catalog = SqlCatalog(url)
    pipe.send("ready")
    start.wait()
    won = 0
    for number in range(20):
        with suppress(PipelineLockedError):
            catalog.leases.acquire(f"p{number}", this_process())
            won += 1
    pipe.send(won)
    pipe.recv()


def hold(pipe: Connection, url: str) -> None:
    """Claim a pipeline, say who has it now, and hold it until told to end."""
    lease = SqlCatalog(url).leases.acquire("p", this_process())
    pipe.send((lease.owner.pid, lease.owner.host))
    pipe.recv()


def first_use(url: str, name: str) -> None:
    """Create one table in a store that may have to be made, or brought up to date, first."""
    SqlCatalog(url).create(table(name))


def upgrade_and_use(url: str, name: str) -> None:
    """Create one table in a store that is brought up to date first."""
    catalog = SqlCatalog(url)
    catalog.upgrade()
    catalog.create(table(name))


def run_statements(url: str, statements: list[str]) -> tuple[int, list[tuple[str, str]]]:
    """Run DDL, each statement by itself; gives the process, and each with `done` or the error that was told."""
    namespace = Namespace(SqlCatalog(url))
    answers = []
    for statement in statements:
        try:
            run(statement, namespace)
            answers.append((statement, "done"))
        except InputError as error:
            answers.append((statement, f"{type(error).__name__}: {error.message}"))
    return os.getpid(), answers
