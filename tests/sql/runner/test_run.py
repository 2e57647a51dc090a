"""How the statements of checked files run: order, failures, stops, leases, results. Queries follow scripts."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from penstock.catalog.definitions.leases import Lease, this_process
from penstock.catalog.errors import BadRecordError, PipelineLockedError
from penstock.catalog.model.identifier import Identifier
from penstock.connector.contract import AvailableNow, Continuous
from penstock.sql.check.script_check import CheckedScript, CheckedStatement
from penstock.sql.cli.commands.script_input import read_input
from penstock.sql.execution.context import SessionContext
from penstock.sql.runner.plan import PlannedSet
from penstock.sql.runner.run import ScriptRun
from penstock.sql.runner.run_mode import RunMode, StopRequest
from penstock.sql.runner.summary import SinkResult, StatementStatus, document
from penstock.sql.script.files import ScriptFile
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import SetOption, StatementSet
from tests.sql.run.scripted import END, ScriptedInsert, ScriptedQuery

BAD = BadRecordError("topic orders, partition 3, offset 12: not JSON", hint="skip them")


class Leases:
    """A catalog that only gives out leases; `memory_table` are those of somebody else."""

    def __init__(self, held=()):
        self.held = set(held)
        self.given = []
        self.returned = []

    def acquire(self, pipeline, owner):
        if pipeline in self.held:
            raise PipelineLockedError(f"{pipeline} is run by process 7")
        self.given.append(pipeline)
        return Lease(pipeline=pipeline, owner=this_process(), fence=1, since_ms=0)

    def renew(self, lease):
        """Nobody else wants it."""

    def release(self, lease):
        self.returned.append(lease.pipeline)

    def report_job(self, lease, report):
        """Nobody asks."""


class Told:
    """A listener that remembers, and may act when a job starts."""

    def __init__(self, when_started=lambda _job: None):
        self.events = []
        self._when_started = when_started

    def job_started(self, job):
        self.events.append(("started", job.progress.sink))
        self._when_started(job)

    def statement_ended(self, result):
        self.events.append((result.status.value, result.sink or result.subject))


def insert(name, *steps, **changes):
    """A checked INSERT into `name` whose query follows the steps."""
    identifier = Identifier(catalog="default_catalog", database="default_database", name=name)
    statement = InsertInto(target=identifier, query=None, source=None, span=None)
    planned = ScriptedInsert(
        starts=[ScriptedQuery(list(steps))], sink=str(identifier), pipeline=f"job/{name}", **changes
    )
    return CheckedStatement(statement=statement, planned=planned)


def statement_set(*inserts, **changes):
    """A checked statement set of these INSERTs, a query each."""
    statement = StatementSet(inserts=tuple(one.statement for one in inserts), span=None)
    queries = tuple(one.planned for one in inserts)
    planned = PlannedSet(spark=None, inserts=queries, queries=queries, rivals=(), **changes)
    return CheckedStatement(statement=statement, planned_set=planned)


def setting(key, value):
    """A checked SET."""
    return CheckedStatement(statement=SetOption(key=key, value=value, span=None))


class Running:
    """A run of one file."""

    def __init__(self, *statements, mode=RunMode.BY_TABLES, held=(), when_started=None):
        self.leases = Leases(held)
        self.stop = StopRequest()
        self.settings = {}
        self.told = Told(*([when_started] if when_started else []))
        context = SessionContext(
            namespace=SimpleNamespace(catalog=SimpleNamespace(leases=self.leases)),
            project=None,
            settings=self.settings,
        )
        self.script = CheckedScript(
            file=ScriptFile(name="job.sql", text=""), statements=tuple(statements)
        )
        self.run = ScriptRun(context, mode=mode, stop=self.stop, listener=self.told)

    def results(self):
        return self.run.run((self.script,))

    def statuses(self):
        return [result.status.value for result in self.results()]


def test_bounded_inserts_run_one_after_the_other():
    """The second starts when the first has ended; what a SET says holds from there on."""
    running = Running(insert("a", 0, END), setting("pipeline.name", "x"), insert("b", 0, 1, END))

    results = running.results()

    assert running.told.events == [
        ("started", "a"),
        ("finished", "a"),
        ("finished", "pipeline.name"),
        ("started", "b"),
        ("finished", "b"),
    ]
    assert [(r.kind, r.sink, r.rows_in, r.batches) for r in results] == [
        ("INSERT", "a", 10, 1),
        ("SET", None, None, None),
        ("INSERT", "b", 20, 2),
    ]
    assert running.settings == {"pipeline.name": "x"}
    assert running.leases.returned == running.leases.given == ["job/a", "job/b"]


@pytest.mark.parametrize(
    ("mode", "bounded", "trigger"),
    [
        (RunMode.BY_TABLES, True, AvailableNow()),
        (RunMode.AVAILABLE_NOW, False, AvailableNow()),
        (RunMode.CONTINUOUS, True, Continuous(interval_ms=5_000)),
    ],
)
def test_the_mode_chooses_the_trigger(mode, bounded, trigger):
    """By the tables, or as asked for; the interval is Flink's checkpointing interval."""
    one = insert("a", 0, END, bounded=bounded)
    running = Running(setting("execution.checkpointing.interval", "5 s"), one, mode=mode)

    running.results()

    assert one.planned.started == [trigger]


@pytest.mark.parametrize(
    ("of_project", "of_script", "splits"),
    [
        (None, (), [100, 100]),
        ("true", (), [10_000, 10_000]),
        (None, ("false",), [0, 0]),
        ("false", ("true", "auto"), [10_000, 100]),
    ],
)
def test_series_of_splits_are_as_the_project_and_the_script_say(
    of_project, of_script, splits, tmp_path
):
    """A SET holds for the INSERTs behind it, in place of what penstock.toml says; a job keeps what was set then."""
    entry = "" if of_project is None else f'[settings]\n"metrics.per-split" = "{of_project}"\n'
    (tmp_path / "penstock.toml").write_text(entry)
    sets = [setting("metrics.per-split", value) for value in of_script]
    first, second = insert("a", 0, END), insert("b", 0, END)
    running = Running(*sets[:1], first, *sets[1:], second)
    running.settings.update(read_input([], folder=tmp_path).open_context(offline=True).settings)

    running.results()

    assert [job.batches.split_limit for job in running.run.jobs] == splits


def test_a_failure_ends_the_run():
    """What comes after it is skipped, and told to be."""
    running = Running(insert("a", 0, BAD), insert("b", END))

    first, second = running.results()

    assert (first.status, first.error, first.hint) == (
        StatementStatus.FAILED,
        "topic orders, partition 3, offset 12: not JSON",
        "skip them",
    )
    assert second.status is StatementStatus.SKIPPED
    assert running.run.error is BAD
    assert sorted(running.leases.returned) == ["job/a", "job/b"]


def test_endless_inserts_run_side_by_side_until_they_are_stopped():
    """All are started before one is waited for; one request stops them all."""
    running = Running(insert("a", 0, bounded=False), insert("b", 0, bounded=False))

    def stop_at_the_second(job):
        if job.progress.sink == "b":
            running.stop.count += 1

    running.told._when_started = stop_at_the_second

    assert running.statuses() == ["stopped", "stopped"]
    assert running.told.events[:2] == [("started", "a"), ("started", "b")]
    assert sorted(running.leases.returned) == ["job/a", "job/b"]


def test_when_one_endless_insert_fails_the_others_stop():
    """A runner with half of its pipelines would look healthy from outside."""
    running = Running(insert("a", 0, bounded=False), insert("b", BAD, bounded=False))

    assert running.statuses() == ["stopped", "failed"]


def test_the_queries_of_a_statement_set_run_side_by_side_and_are_one_result():
    """Bounded ones too; each sink is told with its rows, and the set holds the lease of each."""
    running = Running(statement_set(insert("a", 0, 1, END), insert("b", 0, END)))

    (result,) = running.results()

    assert (result.kind, result.subject, result.status) == (
        "STATEMENT SET",
        "a, b",
        StatementStatus.FINISHED,
    )
    assert (result.rows_in, result.rows_out, result.batches) == (30, 15, 3)
    assert result.sinks == (
        SinkResult(sink="a", rows_out=10, batches=2),
        SinkResult(sink="b", rows_out=5, batches=1),
    )
    assert result.to_json()["sinks"] == [
        {"sink": "a", "rows_out": 10},
        {"sink": "b", "rows_out": 5},
    ]
    assert running.told.events[:2] == [("started", "a"), ("started", "b")]
    assert sorted(running.leases.returned) == ["job/a", "job/b"]


def test_a_sink_that_fails_stops_its_set_and_is_named():
    """The others finish their batch."""
    one = statement_set(insert("a", 0, bounded=False), insert("b", 0, BAD, bounded=False))
    running = Running(one)

    first, *_ = running.results()

    assert first.status is StatementStatus.FAILED
    assert first.error == "sink b: topic orders, partition 3, offset 12: not JSON"
    assert {job.progress.sink: job.status.value for job in running.run.jobs} == {
        "a": "stopped",
        "b": "failed",
    }


def test_a_set_of_which_one_query_cannot_start_starts_none():
    """The one that did is told to stop."""
    refused = insert("b")
    refused.planned.starts[:] = [BadRecordError("not JSON")]
    running = Running(statement_set(insert("a", 0), refused))

    (result,) = running.results()

    assert result.status is StatementStatus.FAILED
    assert result.error == "sink b: not JSON"
    assert sorted(running.leases.returned) == ["job/a", "job/b"]


def test_a_stop_skips_what_has_not_begun():
    """The statement that runs finishes its batch, the rest is left."""
    running = Running(insert("a", 0), insert("b", END), setting("x", "y"))
    running.told._when_started = lambda _job: setattr(running.stop, "count", 1)

    assert running.statuses() == ["stopped", "skipped", "skipped"]


@pytest.mark.parametrize(
    ("mode", "bounded", "interrupted"),
    [
        (RunMode.BY_TABLES, True, True),
        (RunMode.AVAILABLE_NOW, False, True),
        (RunMode.BY_TABLES, False, False),
        (RunMode.CONTINUOUS, True, False),
    ],
)
def test_a_stop_interrupts_only_what_would_have_ended(mode, bounded, interrupted):
    """Stopping is how an endless query ends; a bounded one has not read its input to the end."""
    running = Running(insert("a", 0, bounded=bounded), mode=mode)
    running.told._when_started = lambda _job: setattr(running.stop, "count", 1)

    assert running.statuses() == ["stopped"]
    assert running.run.interrupted is interrupted


def test_a_run_whose_statements_ended_is_not_interrupted():
    """Neither is one that failed: its error says what became of the rest."""
    ended, failed = Running(insert("a", 0, END)), Running(insert("a", BAD), insert("b", END))

    assert (ended.statuses(), ended.run.interrupted) == (["finished"], False)
    assert (failed.statuses(), failed.run.interrupted) == (["failed", "skipped"], False)


def test_a_pipeline_that_another_runs_is_refused_before_anything_starts():
    """All leases are taken first; those taken so far are given back."""
    running = Running(insert("a", END), insert("b", END), held={"job/b"})

    with pytest.raises(PipelineLockedError):
        running.results()
    assert running.told.events == []
    assert running.leases.returned == ["job/a"]


def test_insert_values_holds_its_tables_lease_and_has_no_counts():
    """It is over when it is written, and so is the lease."""
    running = Running(insert("a", is_stream=False))

    (result,) = running.results()

    assert (result.status, result.batches) == (StatementStatus.FINISHED, None)
    assert running.leases.given == ["INSERT INTO default_catalog.default_database.a"]
    assert running.leases.returned == running.leases.given


def test_the_document_has_the_promised_keys():
    """Every statement has all of them, null where they say nothing."""
    running = Running(setting("pipeline.name", "x"), insert("a", 0, BAD))

    value = json.loads(json.dumps(document(running.results())))

    keys = (
        "kind sink rows_in rows_out rows_dropped bad_records records_lost watermark batches seconds "
        "status error code place hint"
    )
    assert [list(statement) for statement in value["statements"]] == [keys.split()] * 2
    assert value["statements"][1]["watermark"] == "1970-01-01T00:00:00.000Z"
    assert value["statements"][1]["error"] == "topic orders, partition 3, offset 12: not JSON"
    assert value["statements"][1]["code"] == BadRecordError.code
    assert value["statements"][1]["hint"] == "skip them"
    assert value["statements"][0] == dict.fromkeys(keys.split()) | {
        "kind": "SET",
        "seconds": value["statements"][0]["seconds"],
        "status": "finished",
    }
