"""Names and checkpoints of INSERTs that come one by one, as in notebooks: no engine."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.sql.check.checkpoint_assignment import name_scripts_here
from penstock.sql.checkpoint.identity import QueryLocation
from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.execution.context import SessionContext
from penstock.sql.plan.physical import planner as planner_module
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.plan.query_location import LocatedStatement, Unit
from penstock.sql.runner import plan as script_plan
from penstock.sql.script.files import ScriptFile
from tests.sql.checkpointed import HIGH, LOW, MINE, TABLES, Job
from tests.sql.sql_objects import new_namespace


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    def files(_: object) -> Any:
        return lambda location: LocalFiles(location=location)

    monkeypatch.setattr(planner_module, "checkpoint_files", files)
    return Job(project=tmp_path, settings={"pipeline.name": "session"})


def session(job: Job, *, running: Collection[str] = ()) -> Planner:
    """The planner of a session whose jobs of these names run."""
    return Planner(
        namespace=new_namespace(TABLES),
        project=job.project,
        settings=dict(job.settings),
        running=lambda: running,
    )


def placed(planner: Planner, job: Job, text: str) -> LocatedStatement:
    """What a session chooses for a statement."""
    (script,) = job.scripts(ScriptFile(name="x.sql", text=TABLES + text))
    one = script.statements[-1]
    return planner.locate(Unit(inserts=one.inserts, is_set=bool(one.members)), cast("Any", None))


def begun(planner: Planner, job: Job, text: str) -> QueryLocation:
    """The place of an INSERT that a session starts."""
    (location,) = placed(planner, job, text).locations
    job.start(location, text)
    return location


def test_an_insert_of_a_session_does_not_take_the_checkpoint_of_another_session(job: Job) -> None:
    """Both are called `session`: only the same statement goes on."""
    first = begun(session(job), job, LOW)

    other = begun(session(job), job, HIGH)
    again = begun(session(job), job, LOW)

    assert first.identity.query == again.identity.query == "o"
    assert (other.identity.query, other.before) == ("o-2", None)


def test_files_and_sessions_of_one_pipeline_have_checkpoints_of_their_own(job: Job) -> None:
    """`pipeline.name` of penstock.toml is that of both."""
    first = begun(session(job), job, LOW)
    assert first.identity.query == "o"

    assert job.run(HIGH, file="job.sql") == ["o-2"]
    assert begun(session(job), job, MINE).identity.query == "o-3"
    assert job.run(LOW.replace("10", "5"), HIGH, file="job.sql") == ["o-4", "o-2"]


def test_an_insert_that_is_run_again_in_a_session_goes_on(job: Job) -> None:
    """Its job was stopped, or failed; one that failed before it began has nothing."""
    running: set[str] = set()
    planner = session(job, running=running)
    (lost,) = placed(planner, job, LOW).locations

    first = begun(planner, job, LOW)
    running.add(first.job)
    other = begun(planner, job, HIGH)
    running.clear()
    again, more = begun(planner, job, LOW), begun(planner, job, HIGH)

    assert lost.job == first.job == again.job == "session/o"
    assert other.job == more.job == "session/o-2"


def test_an_insert_that_runs_does_not_begin_a_second_time_beside_itself(job: Job) -> None:
    """It is given the name that is held, so that its lease refuses it."""
    begun(session(job), job, LOW)

    again = begun(session(job, running={"session/o"}), job, LOW)
    other = begun(session(job, running={"elsewhere/o"}), job, LOW)

    assert again.job == other.job == "session/o"


def test_a_set_of_a_session_is_no_rival_of_what_ran_before(job: Job) -> None:
    """Another statement of this or another session wrote the table: the set begins, and is not refused."""
    begun(session(job), job, LOW)
    both = f"EXECUTE STATEMENT SET BEGIN {HIGH} {HIGH.replace('INTO o', 'INTO p')} END;"
    same = f"EXECUTE STATEMENT SET BEGIN {LOW} {HIGH.replace('INTO o', 'INTO p')} END;"

    assert placed(session(job), job, both).rivals == ()
    assert len(placed(session(job), job, same).rivals) == 1


def again(job: Job, *texts: str) -> tuple[list[QueryLocation], LocatedStatement]:
    """Name the statements of a file, the first of which is a set, and then that set again, with queries of its own."""
    file = job.project / "job.sql"
    file.write_text(TABLES + "\n".join(texts))
    scripts = job.scripts(ScriptFile(name="job.sql", text=file.read_text(), path=file))
    (script,) = name_scripts_here(scripts, job.project)
    first, *others = [one for one in script.statements if one.placed]
    unit = Unit(inserts=first.members, is_set=True, apart=True, file="job.sql")
    all_placed = [one.placed for one in (first, *others) if one.placed]
    planner = session(job)
    planner.running = None
    planner.taken = {name for one in all_placed for name in one.jobs}
    placed_again = planner.locate(unit, cast("Any", None), instead=first.placed)
    return [one.locations[0] for one in all_placed[1:]], placed_again


SET = f"EXECUTE STATEMENT SET BEGIN {HIGH} {HIGH.replace('INTO o', 'INTO p')} END;"


def test_a_set_that_is_placed_again_takes_no_checkpoint_of_a_sibling(job: Job) -> None:
    """Its INSERTs run side by side after all, as Spark knows: their names are chosen beside those of the run."""
    assert job.run(LOW) == ["o"]

    (low,), placed_again = again(job, SET, LOW)

    assert [one.identity.query for one in placed_again.locations] == ["o-2", "p"]
    assert low.identity.query == "o"


def test_an_insert_takes_no_checkpoint_of_a_set_that_is_placed_again(job: Job) -> None:
    """A new one beside the set is not the changed form of what the set has."""
    _, high = again(job, SET)
    job.start(high.locations[0], HIGH)
    assert high.locations[0].identity.query == "o"

    (mine,), placed_again = again(job, SET, MINE)

    assert mine.identity.query == "o-2"
    assert placed_again.locations[0].checkpoint == high.locations[0].checkpoint


def test_a_file_is_planned_beside_the_names_of_its_run(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all files; those of a set are the set's one query."""
    planners = set[frozenset[str]]()

    def plan(one: object, _: object, planner: Planner, *__: object, judges: bool) -> object:
        assert not judges
        planners.add(frozenset(planner.taken))
        return one

    def files(_: object) -> Any:
        return lambda location: LocalFiles(location=location)

    monkeypatch.setattr(script_plan, "_plan", plan)
    monkeypatch.setattr(script_plan, "checkpoint_files", files)
    scripts = job.scripts(
        ScriptFile(name="a.sql", text=TABLES + LOW), ScriptFile(name="b.sql", text=SET)
    )

    script_plan.plan_scripts(
        scripts,
        cast("Any", None),
        SessionContext(namespace=new_namespace(TABLES), project=job.project, settings=job.settings),
    )

    assert planners == {frozenset({"session/o", "session/statement-set"})}
