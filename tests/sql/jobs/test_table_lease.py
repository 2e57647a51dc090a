"""One INSERT .. VALUES at a time into a table: a second one waits for the first, a short time, then is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.catalog.definitions.leases import HOLDER_TIMEOUT_MS, this_process
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import PipelineLockedError, QueryFailedError, StateMismatchError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.contract import AvailableNow, LostLease
from penstock.connector.filesystem.sink.sink import FilesystemSink
from penstock.sql.clock import SystemClock
from penstock.sql.convert.statement import parse_statement
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.dml import run_change
from penstock.sql.jobs.job import start_job
from penstock.sql.jobs.lease import (
    LONGEST_NAME,
    LOOK_MS,
    WAIT_MS,
    lease_name,
    table_lease,
    write_once,
)
from penstock.sql.plan.physical.insert import PlannedInsert
from penstock.sql.script.splitter import split
from penstock.sql.statements.dml import TruncateTable
from tests.sql.run.scripted import MovedClock, ScriptedInsert
from tests.sql.sql_objects import define

TABLE = "default_catalog.default_database.totals"


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """One in a file."""
    return SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}")


def values(*starts: object) -> ScriptedInsert:
    return ScriptedInsert(starts=list(starts), is_stream=False)


def test_truncate_holds_its_tables_lease(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside an INSERT .. VALUES it would remove a part of that one's files, and leave the others."""
    namespace = Namespace(catalog)
    namespace.create(
        define(
            "CREATE TABLE totals (id BIGINT) WITH ('connector' = 'filesystem', 'path' = 'f', 'format' = 'json')"
        )
    )
    held: list[str] = []
    monkeypatch.setattr(
        FilesystemSink,
        "truncate",
        lambda *_: held.extend(claim.lease.pipeline for claim in catalog.leases.claims()),
    )
    (text,) = split("TRUNCATE TABLE totals", "x.sql")
    statement = parse_statement(text, namespace)
    assert isinstance(statement, TruncateTable)
    context = SessionContext(
        namespace=namespace, project=tmp_path, spark=cast("Any", SimpleNamespace)
    )
    run_change(statement, context)

    assert held == [lease_name(TABLE)]
    assert catalog.leases.claims() == []


def test_an_insert_of_values_holds_its_tables_lease_while_it_writes(catalog: SqlCatalog) -> None:
    """From before the target is prepared to the end, also where it fails."""
    held: list[list[str]] = []

    class Looking(ScriptedInsert):
        def prepare(self) -> None:
            held.append([claim.lease.pipeline for claim in catalog.leases.claims()])

        def write(self, lost_lease: LostLease | None = None) -> None:
            held.append([claim.lease.pipeline for claim in catalog.leases.claims()])
            super().write()

    start_job(
        Looking(starts=[None], is_stream=False), trigger=AvailableNow(), leases=catalog.leases
    )
    query = Looking(starts=[RuntimeError("broken")], is_stream=False)
    with pytest.raises(QueryFailedError, match="broken"):
        start_job(query, trigger=AvailableNow(), leases=catalog.leases)

    assert held == [[lease_name(TABLE)]] * 4
    assert catalog.leases.claims() == []


@pytest.mark.parametrize("of_a_file", [True, False])
def test_what_an_insert_of_values_writes_with_can_ask_for_the_tables_lease(
    catalog: SqlCatalog, of_a_file: bool
) -> None:
    """A process that was paused for longer than a lease lasts must not go on."""
    clock, answers = MovedClock(), []

    class Paused(ScriptedInsert):
        def write(self, lost_lease: LostLease | None = None) -> None:
            assert lost_lease is not None
            answers.append(lost_lease())
            clock.now += HOLDER_TIMEOUT_MS
            answers.append(lost_lease())

    query = Paused(starts=[], is_stream=False)
    # the thread that renews waits by the clock of the test: it has no turn before the end
    clock.wait = lambda event, _ms: event.wait(30)  # type: ignore[method-assign]
    if of_a_file:
        write_once(query, catalog.leases, clock)  # type: ignore[arg-type]
    else:
        start_job(query, trigger=AvailableNow(), leases=catalog.leases, clock=clock)  # type: ignore[arg-type]

    assert answers[0] is None
    assert isinstance(answers[1], QueryFailedError)


@pytest.mark.parametrize("replaces", [True, False])
def test_a_planned_insert_gives_its_lease_to_what_it_writes_into(replaces: bool) -> None:
    """To the editor of an INSERT OVERWRITE, to the sink of INSERT .. VALUES."""
    asked: list[object] = []

    class Target:
        def under_lease(self, lost_lease: LostLease) -> Target:
            asked.append(lost_lease)
            return self

        def write(self, _frame: object) -> None:
            asked.append("written")

        def overwrite(self, _frame: object, _partition: object, *, whole: bool) -> None:
            asked.append(("overwritten", whole))

    planned = SimpleNamespace(
        _built=lambda _: SimpleNamespace(result=object()),
        editor=Target() if replaces else None,
        target=Target(),
        partition=(),
        whole=True,
    )
    held: LostLease = lambda: None  # noqa: E731  one that can be told from others
    PlannedInsert.write(planned, held)  # type: ignore[arg-type]

    assert asked == [held, ("overwritten", True) if replaces else "written"]


def test_a_second_insert_into_a_table_waits_for_the_first(catalog: SqlCatalog) -> None:
    """And then writes; one into another table does not wait."""
    clock, other = MovedClock(), MovedClock()
    clock.while_waiting = lambda: release(catalog)
    query = values(None)
    with table_lease(catalog.leases, TABLE, SystemClock()):
        another = ScriptedInsert(starts=[None], is_stream=False, sink="other")
        start_job(another, trigger=AvailableNow(), leases=catalog.leases, clock=other)  # type: ignore[arg-type]
        start_job(query, trigger=AvailableNow(), leases=catalog.leases, clock=clock)  # type: ignore[arg-type]

    assert query.starts == []
    assert LOOK_MS in clock.waits
    assert LOOK_MS not in other.waits


def release(catalog: SqlCatalog) -> None:
    """The first statement ends."""
    for claim in catalog.leases.claims():
        if claim.lease.pipeline == lease_name(TABLE):
            catalog.leases.release(claim.lease)


def test_a_second_insert_into_a_table_is_refused_by_name_where_the_first_takes_long(
    catalog: SqlCatalog,
) -> None:
    """Nothing of it is prepared or written."""
    clock, query = MovedClock(), values(None)
    with (
        table_lease(catalog.leases, TABLE, SystemClock()),
        pytest.raises(PipelineLockedError, match=r"another INSERT of process \d+ on host") as no,
    ):
        start_job(query, trigger=AvailableNow(), leases=catalog.leases, clock=clock)  # type: ignore[arg-type]

    assert TABLE in no.value.message
    assert "nothing was written" in (no.value.hint or "")
    assert query.prepared == 0
    assert sum(clock.waits) == WAIT_MS


@pytest.mark.parametrize("of_a_file", [True, False])
def test_an_insert_of_values_that_was_killed_is_named_when_it_is_typed_again(
    catalog: SqlCatalog, of_a_file: bool
) -> None:
    """Once, and written by the time after that; another statement is not held up."""
    killed = replace(this_process("a" * 32), pid=2**22 + 1)
    clock = SystemClock()

    def run(digest: str) -> ScriptedInsert:
        query = ScriptedInsert(starts=[None], is_stream=False, statement_digest=digest)
        if of_a_file:
            write_once(query, catalog.leases, clock)  # type: ignore[arg-type]
        else:
            start_job(query, trigger=AvailableNow(), leases=catalog.leases, clock=clock)  # type: ignore[arg-type]
        return query

    catalog.leases.acquire(lease_name(TABLE), killed)
    other = run("b" * 32)
    catalog.leases.acquire(lease_name(TABLE), killed)
    with pytest.raises(StateMismatchError, match=f"process {killed.pid} on host") as caught:
        run("a" * 32)
    again = run("a" * 32)

    assert other.starts == again.starts == []
    assert "nothing was written now" in (caught.value.hint or "")


def test_a_lease_has_a_name_that_the_catalog_can_keep() -> None:
    """However long the table's is; two tables have two."""
    long = "c.d." + "t" * 2000

    assert lease_name("c.d.t") == "INSERT INTO c.d.t"
    assert len(lease_name(long)) == LONGEST_NAME
    assert lease_name(long) != lease_name(long + "t")
