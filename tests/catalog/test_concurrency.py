"""Two hundred DDL statements from ten processes at once, on both databases."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from penstock.catalog.definitions.contract import Action, Change, ChangeKind
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.conftest import Store
from tests.catalog.processes import together
from tests.catalog.workers import run_statements
from tests.sql.sql_objects import run

PROCESSES, STATEMENTS = 10, 20
COLUMNS = "(id BIGINT NOT NULL, name STRING) WITH ('connector' = 'datagen')"

CLEAR = (
    r"ObjectExistsError: there is a (table|database) \S+ already",
    r"ObjectExistsError: there is a table \S+ already, with another definition; here it has: .*",
    r"UnknownObjectError: there is no (table or view|database) \S+",
    r"DefinitionError: the table \S+ was changed by another process in the meantime: "
    r"it was changed by \S+@\S+ \(process \d+\) at [\d: -]+UTC \(it is version \d+, what was read is version \d+\)",
)
"""What may be told to one that comes too late."""


def statements_of(process: int) -> list[str]:
    """20 statements: names of its own, names that all want, one table that all change, databases that come and go."""
    own = [f"CREATE TABLE own_{process}_{number} {COLUMNS}" for number in range(4)]
    own += [f"CREATE VIEW seen_{process} AS SELECT 1"]
    place = process % 2
    # each of its own definition: the same one would be the table that is there
    wanted = COLUMNS.replace("'datagen'", f"'datagen', 'rows-per-second' = '{process + 1}'")
    contested = [f"CREATE TABLE wanted_{number} {wanted}" for number in range(3)]
    contested += [f"DROP TABLE wanted_{number}" for number in range(2)]
    contested += [f"ALTER TABLE counted SET ('p{process}.{n}' = 'x')" for n in range(5)]
    contested += [
        f"CREATE DATABASE place_{place} COMMENT 'of {process}'",
        f"CREATE TABLE place_{place}.inside_{process} {COLUMNS}",
        f"DROP DATABASE place_{place} CASCADE",
        f"ALTER TABLE own_{process}_0 RENAME TO moved_{process}",
        f"DROP TABLE own_{process}_1",
    ]
    random.Random(process).shuffle(contested)
    return own + contested


@pytest.mark.slow
def test_two_hundred_statements_of_ten_processes_lose_nothing(store: Store) -> None:
    """What each was told is what the history says, and the history is what is there."""
    catalog = store.open()
    run(f"CREATE TABLE counted {COLUMNS}", Namespace(catalog))
    answers = together(run_statements, [(store.url, statements_of(n)) for n in range(PROCESSES)])
    told = [(process, text, answer) for process, given in answers for text, answer in given]
    refused = [answer for _, _, answer in told if answer != "done"]
    (created, *changes) = catalog.history()[::-1]

    assert len(told) == PROCESSES * STATEMENTS
    assert [a for a in refused if not any(re.fullmatch(clear, a) for clear in CLEAR)] == []
    assert Counter(
        expected(text, process) for process, text, answer in told if answer == "done"
    ) == Counter(
        (c.author.process, c.action, c.kind, c.name[-1]) for c in changes if not was_inside(c)
    )
    check_what_is_there([created, *changes], catalog)
    catalog.close()


def expected(text: str, process: int) -> tuple[int, Action, ChangeKind, str]:
    """The row of the history that a statement makes."""
    words = text.replace(".", " ").split()
    kind, name = ChangeKind(words[1].lower()), words[2]
    match words:
        case ["ALTER", "TABLE", _, "RENAME", *_]:
            action = Action.RENAME
        case ["ALTER", *_]:
            action = Action.REPLACE
        case ["CREATE", "TABLE", _, inside, *_] if inside.startswith("inside"):
            action, name = Action.CREATE, inside
        case [verb, *_]:
            action = Action(verb.lower())
        case _:
            raise AssertionError(text)
    return process, action, kind, name


def was_inside(change: Change) -> bool:
    """Whether something went with its database, for which there was no statement of its own."""
    return change.action is Action.DROP and change.name[-1].startswith("inside")


def check_what_is_there(changes: list[Change], catalog: SqlCatalog) -> None:
    """Go through the history: each change was made to what the one before it left, and the last left what is there."""
    there: dict[tuple[str, ...], object] = {}
    versions: dict[tuple[str, ...], int] = {}
    for change in changes:
        assert there.pop(change.name, None) == change.before
        new = change.renamed_to or change.name
        assert change.version > max(versions.get(change.name, 0), versions.get(new, 0))
        versions[change.name] = versions[new] = change.version
        if change.after is not None:
            there[new] = change.after
    found: dict[tuple[str, ...], object] = {
        (one.catalog, one.database, one.name): catalog.get(one)
        for one in (*catalog.tables(), *catalog.views())
    }
    for name in catalog.databases()[1:]:
        found["default_catalog", name] = catalog.database("default_catalog", name)

    assert found == there
