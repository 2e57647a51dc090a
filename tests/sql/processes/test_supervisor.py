"""The supervisor over processes that a test ends: restarts, failures, stops."""

from __future__ import annotations

import errno
import json
import os
from typing import Any

import pytest

from penstock.sql.processes import supervisor
from penstock.sql.processes.overview import pipeline_documents
from penstock.sql.processes.process_end import ProcessState
from penstock.sql.settings import NoRestart
from tests.sql.processes.scripted_processes import Project


def states(project: Project) -> list[ProcessState]:
    """The states of the processes."""
    return [each.state for each in project.supervisor.processes()]


def test_the_failure_of_one_stops_no_other() -> None:
    """The other runs until it is done, and both states are known at the end."""
    project = Project(("a.sql", "b.sql"))
    seen: list[list[ProcessState]] = []
    project.run(
        {
            1_000: project.end("a.sql", 1),
            60_000: lambda: seen.append(states(project)),
            61_000: project.end("b.sql", 0),
        }
    )

    assert seen == [[ProcessState.FAILED, ProcessState.STARTING]]
    assert states(project) == [ProcessState.FAILED, ProcessState.FINISHED]
    assert len(project.children) == 2


def test_one_that_is_killed_starts_again_after_its_delay() -> None:
    """The second process is another; the delay is the strategy's, and the reason is shown meanwhile."""
    project = Project(("a.sql",))
    starts: list[tuple[int, int]] = []
    waiting: list[str] = []

    def look() -> None:
        (document,) = pipeline_documents(project.supervisor.processes(), project.clock.ms)
        waiting.append(f"{document['status']}: {document.get('sentence')}")

    project.run(
        {
            600: lambda: project.children[0].report("shop/a", rows_per_second=7.0, restarts=1),
            1_000: project.end("a.sql", -9),
            1_400: look,
            2_000: lambda: starts.append((project.clock.ms, len(project.children))),
            2_600: lambda: starts.append((project.clock.ms, len(project.children))),
            2_800: lambda: project.children[1].report("shop/a", restarts=0),
            3_000: look,
            4_000: project.end("a.sql", 0),
        }
    )

    assert starts == [(2_000, 1), (2_600, 2)]
    killed = "the process was killed by SIGKILL: was the machine out of memory?"
    assert waiting[0] == f"restarting: {killed}; starts again in 1 s"
    assert waiting[1].startswith("running")
    (view,) = project.supervisor.processes()
    assert (view.restarts, view.state) == (1, ProcessState.FINISHED)
    assert project.children[0].closed
    assert any(killed in line for line in project.log)


def test_two_start_at_a_time_and_the_next_once_one_has_reported() -> None:
    """Of five; one that never reports holds up the others for half a minute, and a restart waits for its turn, too."""
    project = Project(tuple(f"{name}.sql" for name in "abcde"), most_starting=2)
    starts: list[list[str]] = []

    def look() -> None:
        starts.append([child.plan.name[0] for child in project.children])

    def end_all() -> None:
        for child in project.children:
            child.ended = 0 if child.ended is None else child.ended

    project.run(
        {
            1_000: look,
            1_200: lambda: project.children[0].report("shop/a"),
            2_000: look,
            2_200: project.end("a.sql", -9),
            10_000: look,
            32_000: look,
            65_000: look,
            66_000: end_all,
            70_000: end_all,
        }
    )

    assert starts == [list(each) for each in ("ab", "abc", "abc", "abcad", "abcade")]
    assert states(project) == [ProcessState.FINISHED] * 5


def test_a_full_disk_below_the_log_ends_no_pipeline() -> None:
    """One that dies is started again, though nothing can be said of it."""
    project = Project(("a.sql", "b.sql"), disk_full=True)
    project.run(
        {
            1_000: project.end("a.sql", -9),
            5_000: lambda: project.children_of("a.sql")[1].report("shop/a"),
            6_000: project.end("b.sql", 1),
            7_000: project.end("a.sql", 0),
        }
    )

    assert states(project) == [ProcessState.FINISHED, ProcessState.FAILED]
    assert project.log == []


def test_restarts_of_a_process_are_shown_with_their_bound() -> None:
    """Those that count are fewer once it has run for long."""
    project = Project(("a.sql",))
    seen: list[tuple[int, int, int | None]] = []

    def look() -> None:
        (view,) = project.supervisor.processes()
        seen.append((view.restarts, view.restarts_counted, view.restart_limit))

    project.run(
        {
            1_000: look,
            1_200: project.end("a.sql", -9),
            2_000: look,  # before the restart, which comes after a second
            3_000: look,
            700_000: look,
            700_200: project.request_stop,
        }
    )

    assert seen == [(0, 0, 2), (0, 1, 2), (1, 1, 2), (1, 0, 2)]


def test_the_deaths_of_a_process_are_kept() -> None:
    """With their times; a pipeline that fails in it keeps its own errors, so its end is none of these."""
    project = Project(("a.sql",))
    project.run({1_000: project.end("a.sql", -9), 3_000: project.end("a.sql", 1)})
    (view,) = project.supervisor.processes()
    (killed,) = view.failures

    assert view.state is ProcessState.FAILED
    assert killed.message.startswith("the process was killed by SIGKILL")
    assert (killed.code, killed.at_ms // 1_000) == (None, 1)


def test_restarts_have_a_bound() -> None:
    """After two in a row it has failed for good; each is delayed for longer."""
    project = Project(("a.sql",))

    def kill() -> None:
        project.children[-1].ended = -11

    project.run({1_000: kill, 3_000: kill, 7_000: kill})

    (view,) = project.supervisor.processes()
    assert view.state is ProcessState.FAILED
    assert len(project.children) == 3
    assert view.reason == "the process was killed by SIGSEGV; gave up after 2 restarts"


def test_a_file_without_restarts_has_none() -> None:
    """SET 'restart-strategy.type' = 'none' holds for a process that dies, too."""
    project = Project(("a.sql",), restarts=NoRestart())
    project.run({1_000: project.end("a.sql", -9)})

    assert states(project) == [ProcessState.FAILED]
    assert len(project.children) == 1


def test_a_request_to_stop_is_passed_on_once() -> None:
    """Each process gets one, ends, and none starts again."""
    project = Project(("a.sql", "b.sql"))
    project.run({1_000: project.request_stop})

    assert [child.stops for child in project.children] == [1, 1]
    assert states(project) == [ProcessState.STOPPED, ProcessState.STOPPED]
    assert project.clock.ms < 2_000


def test_what_waits_for_its_restart_is_not_started_once_all_is_to_stop() -> None:
    """It has no process to be asked."""
    project = Project(("a.sql",))
    project.run({1_000: project.end("a.sql", -9), 1_600: project.request_stop})

    assert len(project.children) == 1
    assert states(project) == [ProcessState.STOPPED]


def test_a_second_request_is_passed_on_and_a_process_that_hangs_is_killed() -> None:
    """The third step is no request: it is killed, after the limit of its batch and twice what comes on top."""
    project = Project(("a.sql",))

    def hang() -> None:
        project.children[0].stops_by_itself = False

    project.run({400: hang, 1_000: project.request_stop, 5_000: project.request_stop})

    (child,) = project.children
    assert child.stops == 2
    assert child.killed
    assert 60_000 + 30_000 < project.clock.ms < 60_000 + 35_000
    assert any("did not stop in time" in line for line in project.log)
    (view,) = project.supervisor.processes()
    killed = "it did not stop in time and was killed: the next run does its batch again"
    assert (view.state, view.reason) == (ProcessState.FAILED, killed)


def test_one_that_dies_while_it_stops_has_failed() -> None:
    """Which is logged, and shown of its pipeline; the other one has stopped."""
    project = Project(("a.sql", "b.sql"))

    def hang() -> None:
        project.children[0].stops_by_itself = False
        project.children[0].report("shop/a")
        project.children[1].report("shop/b", status="stopped")

    project.run({400: hang, 1_000: project.request_stop, 3_000: project.end("a.sql", -9)})

    assert states(project) == [ProcessState.FAILED, ProcessState.STOPPED]
    killed = "while it stopped: the process was killed by SIGKILL: was the machine out of memory?"
    first, second = pipeline_documents(project.supervisor.processes(), project.clock.ms)
    assert (first["status"], first["reason"]) == ("failed", killed)
    assert second["status"] == "stopped"
    assert f"a.sql | failed for good: {killed}" in project.log


def test_status_130_while_it_stops_is_a_failure_of_one_that_runs() -> None:
    """One that has not reported yet was starting; one that has stopped was to come to the end of its tables."""
    project = Project(("left.sql", "starting.sql", "ended.sql"))

    def hang() -> None:
        for child in project.children:
            child.stops_by_itself = False
        project.children[0].report("shop/left", status="restarting")
        project.children[2].report("shop/ended")

    def end() -> None:
        project.children[2].report("shop/ended", status="stopped")
        for child in project.children:
            child.ended = 130

    project.run({400: hang, 1_000: project.request_stop, 3_000: end})

    assert states(project) == [
        ProcessState.FAILED,
        ProcessState.STOPPED,
        ProcessState.STOPPED,
    ]


def test_a_batch_that_takes_too_long_gets_a_second_request() -> None:
    """Without one of the user's: the process stops at once then."""
    project = Project(("a.sql",))

    def hang() -> None:
        project.children[0].stops_by_itself = False

    def give_in() -> None:
        project.children[0].stops_by_itself = True

    project.run({400: hang, 1_000: project.request_stop, 2_000: give_in})

    assert project.children[0].stops == 2
    assert not project.children[0].killed


def test_a_process_that_the_system_will_not_start_has_failed() -> None:
    """With the reason of the operating system; the other runs."""
    project = Project(("a.sql", "b.sql"))
    project.refuse["a.sql"] = OSError(errno.EACCES, "Permission denied")
    project.run({1_000: project.end("b.sql", 0)})

    first, second = project.supervisor.processes()
    assert (first.state, first.reason) == (
        ProcessState.FAILED,
        "no process could be started: Permission denied",
    )
    assert second.state is ProcessState.FINISHED


@pytest.mark.parametrize("lacking", [errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE])
def test_a_machine_that_is_short_of_something_is_tried_again(lacking: int) -> None:
    """By the strategy: what was there once more a second later starts the process, as the first restart."""
    project = Project(("a.sql",))
    project.refuse["a.sql"] = OSError(lacking, os.strerror(lacking))
    seen: list[tuple[ProcessState, str | None]] = []

    def look() -> None:
        (view,) = project.supervisor.processes()
        seen.append((view.state, view.reason))
        project.refuse.clear()

    project.run({600: look, 3_000: project.end("a.sql", 0)})

    reason = f"no process could be started: {os.strerror(lacking)}"
    assert seen == [(ProcessState.RESTARTING, reason)]
    (view,) = project.supervisor.processes()
    assert (view.state, view.restarts) == (ProcessState.FINISHED, 1)


def test_a_machine_that_stays_short_is_given_up() -> None:
    """After the restarts that the strategy has; each is counted."""
    project = Project(("a.sql",))
    project.refuse["a.sql"] = OSError(errno.ENOMEM, "Cannot allocate memory")
    project.run({})

    (view,) = project.supervisor.processes()
    reason = "no process could be started: Cannot allocate memory; gave up after 2 restarts"
    assert (view.state, view.reason, view.restarts) == (ProcessState.FAILED, reason, 2)
    assert view.starts_again_ms is None


def test_one_that_loses_the_race_for_its_lease_waits_for_it() -> None:
    """Two supervisors at once: the loser's process ends with status 75, and starts once the other's has ended."""
    project = Project(("a.sql",))
    locked = "error[PEN-7002]: pipeline 'shop/a' is already run by process 9 on host h"
    seen: list[tuple[ProcessState, str | None]] = []

    def lose() -> None:
        project.children[-1].lines.logged(locked)
        project.children[-1].ended = 75

    def look() -> None:
        (view,) = project.supervisor.processes()
        seen.append((view.state, view.reason))

    project.run(
        {
            1_000: lose,
            1_400: look,
            5_000: lambda: project.children[1].report("shop/a"),
            5_200: look,
            6_000: project.end("a.sql", 0),
        }
    )

    assert seen[0] == (ProcessState.RESTARTING, locked)
    assert seen[1][0] is ProcessState.RUNNING
    assert states(project) == [ProcessState.FINISHED]


def test_one_whose_lease_another_supervisor_keeps_fails_in_the_end() -> None:
    """Not for ever: the strategy's restarts are used up, and the reason names who has it."""
    project = Project(("a.sql",))

    def lose() -> None:
        project.children[-1].lines.logged("error[PEN-7002]: run by process 9 on host h")
        project.children[-1].ended = 75

    project.run({1_000: lose, 3_000: lose, 7_000: lose})

    (view,) = project.supervisor.processes()
    reason = "error[PEN-7002]: run by process 9 on host h; gave up after 2 restarts"
    assert (view.state, view.reason) == (ProcessState.FAILED, reason)
    assert len(project.children) == 3


def test_lines_have_the_name_of_their_process_and_reports_are_no_lines() -> None:
    """The last error is the reason of a failure."""
    project = Project(("a.sql",))

    def speak() -> None:
        lines = project.children[0].lines
        lines.printed("(1, 2)")
        lines.logged("starting Spark")
        lines.logged("error[PEN-8000]: it does not work")
        project.children[0].report("shop/a")

    project.run({1_000: speak, 2_000: project.end("a.sql", 1)})

    assert project.printed == ["a.sql | (1, 2)"]
    assert project.log == [
        "a.sql | starting Spark",
        "a.sql | error[PEN-8000]: it does not work",
        "a.sql | failed for good: error[PEN-8000]: it does not work",
    ]


def test_what_a_process_prints_is_no_report_and_ends_no_other() -> None:
    """As a record that a driver quotes: no status that there is not, no address that tokens would be sent to."""
    project = Project(("a.sql", "b.sql"))
    lines = [
        '{"time": "", "name": "shop/a", "status": "purple"}',
        '{"time": "", "name": "shop/a", "status": "failed"}',
        '{"page": "http://10.1.2.3/"}',
        '{"metrics": "http://10.1.2.3/"}',
    ]
    seen: list[tuple[str | None, str | None, int]] = []

    def speak() -> None:
        for line in lines:
            project.children[0].lines.logged(line)
        child = project.children[0]
        # with the right mark, as by a bug of ours
        child.report("shop/a", status="purple")
        child.lines.logged(json.dumps({"page": "http://10.1.2.3/", "mark": child.plan.mark}))
        (first, _) = project.supervisor.processes()
        seen.append((first.page_url, first.metrics_url, len(first.documents)))

    project.run(
        {
            1_000: speak,
            1_200: project.request_stop,
            1_400: project.end("a.sql", 0),
            1_600: project.end("b.sql", 0),
        }
    )

    assert seen == [(None, None, 0)]
    assert states(project) == [ProcessState.STOPPED] * 2
    assert not any(child.killed for child in project.children)
    assert next(line for line in project.log if "10.1.2.3" in line) == f"a.sql | {lines[2]}"


def test_a_decision_that_fails_ends_its_own_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, and the other one goes on, and is restarted as ever."""
    project = Project(("a.sql", "b.sql"))
    decide = supervisor.after_end

    def sometimes(status: int, **more: Any) -> object:
        if status == 1:
            raise ValueError("purple")
        return decide(status, **more)

    monkeypatch.setattr(supervisor, "after_end", sometimes)
    project.run(
        {
            1_000: project.end("a.sql", 1),
            2_000: project.end("b.sql", -9),
            5_000: project.end("b.sql", 0),
        }
    )

    first, second = project.supervisor.processes()
    reason = "its supervisor failed: ValueError: purple"
    assert (first.state, first.reason, first.pid) == (ProcessState.FAILED, reason, None)
    assert f"a.sql | failed for good: {reason}" in project.log
    assert (second.state, second.restarts) == (ProcessState.FINISHED, 1)


def test_processes_end_with_a_supervisor_that_is_interrupted() -> None:
    """None is left behind."""
    project = Project(("a.sql", "b.sql"))

    def interrupt() -> None:
        raise KeyboardInterrupt

    try:
        project.run({1_000: interrupt})
    except KeyboardInterrupt:
        interrupted = True

    assert interrupted
    assert all(child.killed and child.closed for child in project.children)


def test_a_process_starts_once_those_before_it_run() -> None:
    """Or have failed: then it says by itself what it lacks."""
    after = {"b.sql": ("a.sql",), "d.sql": ("c.sql",)}
    project = Project(("a.sql", "b.sql", "c.sql", "d.sql"), after=after)
    seen: list[list[str]] = []

    def look() -> None:
        seen.append([child.plan.name for child in project.children])

    project.run(
        {
            1_000: look,
            1_200: lambda: project.children[0].report("shop/a"),
            1_600: look,
            2_000: project.end("c.sql", 1),
            2_400: look,
            5_000: project.request_stop,
        }
    )

    assert seen == [
        ["a.sql", "c.sql"],
        ["a.sql", "c.sql", "b.sql"],
        ["a.sql", "c.sql", "b.sql", "d.sql"],
    ]


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000], ids=["ahead", "back"])
def test_a_clock_that_is_set_changes_no_decision(jump_ms: int) -> None:
    """When it restarts, how many start at a time, what a speed means: all by the time that has passed."""
    project = Project(("a.sql", "b.sql", "c.sql"), most_starting=2)
    starts: list[list[str]] = []
    documents: list[dict[str, object]] = []

    def look() -> None:
        starts.append([child.plan.name[0] for child in project.children])

    def jump() -> None:
        project.clock.ahead_ms = jump_ms
        look()

    def show() -> None:
        found = pipeline_documents(project.supervisor.processes(), project.clock.now_ms())
        documents.extend(dict(each) for each in found)

    project.run(
        {
            1_000: lambda: project.children[0].report("shop/a", rows_per_second=7.0),
            1_600: lambda: project.children[0].report("shop/a", rows_per_second=7.0),
            2_000: jump,  # b and c are starting
            2_200: show,
            2_600: project.end("b.sql", -9),
            3_000: show,
            3_200: look,
            5_000: look,
            6_000: project.request_stop,
        }
    )

    assert starts == [list("abc"), list("abc"), list("abcb")]
    assert documents[0]["rows_per_second"] == 7.0
    assert str(documents[4]["sentence"]).endswith("; starts again in 1 s")


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000], ids=["ahead", "back"])
def test_a_clock_that_is_set_lets_nothing_more_start_at_a_time(jump_ms: int) -> None:
    """Nor makes a long run of a short one, after which restarts are counted anew."""
    project = Project(("a.sql", "b.sql"), most_starting=1)
    starts: list[int] = []

    def kill() -> None:
        project.children_of("a.sql")[-1].ended = -9

    def set_clock() -> None:
        project.clock.ahead_ms = jump_ms

    project.run(
        {
            1_000: set_clock,
            2_000: lambda: starts.append(len(project.children)),
            40_000: project.end("b.sql", 0),
            41_000: kill,
            43_000: lambda: setattr(project.clock, "ahead_ms", 2 * jump_ms),
            44_000: kill,
            48_000: kill,
        }
    )

    assert starts == [1]
    assert states(project) == [ProcessState.FAILED, ProcessState.FINISHED]
    assert len(project.children_of("a.sql")) == 3


def test_a_speed_that_was_reported_once_does_not_stay() -> None:
    """Where nothing comes, nothing is reported either."""
    project = Project(("a.sql",))
    speeds: list[tuple[float, float]] = []
    reported = {"rows_per_second": 7.0, "rows_per_second_out": 5.0}

    def look() -> None:
        (document,) = pipeline_documents(project.supervisor.processes(), project.clock.ms)
        speeds.append((document["rows_per_second"], document["rows_per_second_out"]))

    project.run(
        {
            1_000: lambda: project.children[0].report("shop/a", **reported),
            9_000: look,
            12_000: look,
            13_000: project.request_stop,
        }
    )

    assert speeds == [(7.0, 5.0), (0.0, 0.0)]


def test_a_trend_that_was_reported_goes_on_without_rows() -> None:
    """A process reports at most once a minute while nothing comes; the list draws each half minute."""
    project = Project(("a.sql",))
    found: list[tuple[list[float], list[int]]] = []
    reported = {"rows_per_second_trend": [7.0], "lag_records_trend": [3]}

    def look() -> None:
        (document,) = pipeline_documents(project.supervisor.processes(), project.clock.ms)
        found.append((document["rows_per_second_trend"], document["lag_records_trend"]))

    project.run(
        {
            1_000: lambda: project.children[0].report("shop/a", **reported),
            9_000: look,
            62_000: look,
            63_000: project.request_stop,
        }
    )

    assert found == [([7.0], [3]), ([7.0, 0.0, 0.0], [3, 3, 3])]


def test_what_failed_in_a_process_that_starts_again_is_shown_as_restarting() -> None:
    """It is no failure for good: the next process starts it, too."""
    project = Project(("a.sql",))
    shown: list[str] = []

    def end() -> None:
        project.children[0].report("shop/a", status="failed", reason="the catalog is away")
        project.children[0].ended = 75

    def look() -> None:
        (document,) = pipeline_documents(project.supervisor.processes(), project.clock.ms)
        shown.append(document["status"])

    project.run({1_000: end, 1_400: look, 1_600: project.request_stop})

    assert shown == ["restarting"]
