"""How `penstock up` ends: by one signal, by two, with a process that does not end, with a pipeline that has failed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from penstock.sql.cli import signals, up_run
from penstock.sql.cli.commands.app import app
from penstock.sql.processes.child import Lines, ProcessPlan
from penstock.sql.processes.overview import ProjectView
from penstock.sql.ui import server
from tests.sql.cli.command_runner import CommandRunner
from tests.sql.processes.scripted_processes import ScriptedChild, SteppingClock

PIPELINE = """CREATE TABLE orders (id BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE {hole} (id BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO {hole} SELECT id FROM orders;"""
STOP_S = 60


def send_sigterm() -> None:
    """As `systemctl stop` does; the handler runs before this returns."""
    os.kill(os.getpid(), signal.SIGTERM)


class Shop:
    """A project of two pipelines whose processes a test ends, at a time that passes by itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.children: list[ScriptedChild] = []
        self.clock = SteppingClock({})
        self.said: list[str] = []
        self.left_after_s: list[float] = []
        """After how long the command was to leave what does not end, for each signal."""
        monkeypatch.setattr(up_run, "ChildProcess", self._launch)
        monkeypatch.setattr(up_run, "SystemClock", lambda: self.clock)
        monkeypatch.setattr(signals, "_write", self.said.append)
        monkeypatch.setattr(
            signals.StopSignals, "_end_after", lambda _, seconds: self.left_after_s.append(seconds)
        )

    def _launch(self, plan: ProcessPlan, lines: Lines) -> ScriptedChild:
        self.children.append(ScriptedChild(plan=plan, lines=lines, pid=100 + len(self.children)))
        return self.children[-1]

    def up(self, steps: dict[int, Callable[[], None]], *options: str) -> tuple[int, str]:
        """Run the command; `steps` happen at their times. Gives its exit status and stderr."""
        self.clock._steps = dict(steps)
        result = CommandRunner().invoke(
            app, ["up", "shop", "--stop-timeout", str(STOP_S), *options]
        )
        return result.exit_code, result.stderr


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The project, in a folder below the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop" / "sql").mkdir(parents=True)
    for name in ("a", "b"):
        file = tmp_path / "shop" / "sql" / f"{name}.sql"
        file.write_text(PIPELINE.format(hole=f"hole_{name}"), encoding="utf-8")
    return Shop(monkeypatch)


def test_a_signal_ends_all_once_and_the_status_is_0(shop: Shop) -> None:
    """Each process is asked once, which is what lets it finish its batch."""
    status, said = shop.up({1_000: send_sigterm})

    assert status == 0, said
    assert [child.stops for child in shop.children] == [1, 1]
    assert not any(child.killed for child in shop.children)
    assert "stopped   sql/a.sql" in said


def test_a_second_signal_is_passed_on_and_the_status_is_130(shop: Shop) -> None:
    """To a process that still runs; it does not wait for the limit of its batch then."""

    def give_in() -> None:
        for child in shop.children:
            child.stops_by_itself = True

    def hang() -> None:
        for child in shop.children:
            child.stops_by_itself = False

    status, said = shop.up({600: hang, 1_000: send_sigterm, 3_000: give_in, 3_200: send_sigterm})

    assert status == 130, said
    assert [child.stops for child in shop.children] == [2, 2]
    assert shop.clock.ms < 5_000
    assert not any(child.killed for child in shop.children)


def test_a_process_that_does_not_end_is_killed_before_the_command_gives_up(shop: Shop) -> None:
    """It was asked twice; the other has ended by itself, and no process is left to its watchdog."""

    def hang() -> None:
        shop.children[1].stops_by_itself = False

    status, said = shop.up({600: hang, 1_000: send_sigterm})

    first, second = shop.children
    assert (first.stops, first.killed) == (1, False)
    assert (second.stops, second.killed) == (2, True)
    assert "sql/b.sql | did not stop in time: it is killed" in said
    (left_after_s,) = shop.left_after_s
    took_s = shop.clock.ms / 1000 - 1
    assert STOP_S < took_s < left_after_s
    assert status == 1, said
    assert "stopped   sql/a.sql" in said
    assert "failed    sql/b.sql  it did not stop in time and was killed" in said


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (-signal.SIGKILL, "while it stopped: the process was killed by SIGKILL"),
        (130, "its batch did not end in time: the next run does it again"),
    ],
)
def test_a_process_that_leaves_its_batch_while_it_stops_is_told_by_the_status(
    shop: Shop, ended: int, reason: str
) -> None:
    """Another killed it, or it did not wait any longer; the last lines name it, and the other one has stopped."""

    def hang() -> None:
        shop.children[1].stops_by_itself = False
        shop.children[1].report("b/hole_b")

    def leave() -> None:
        shop.children[1].ended = ended

    status, said = shop.up({600: hang, 1_000: send_sigterm, 5_000: leave})

    assert status == 1, said
    assert "stopped   sql/a.sql" in said
    assert f"failed    sql/b.sql  {reason}" in said


@pytest.mark.parametrize("options", [(), ("--shared",)], ids=["a process each", "shared"])
def test_a_pipeline_that_failed_before_the_signal_is_told_by_the_status(
    shop: Shop, options: tuple[str, ...]
) -> None:
    """One rule, whether it has a process of its own, which has ended then, or shares one, which ends by the signal."""
    reason = "topic t, partition 0, offset 9: it is not valid JSON"

    def fail() -> None:
        first = shop.children[0]
        first.report("a/hole_a", status="failed", reason=reason)
        if options:
            first.report("b/hole_b", status="running")
        else:
            first.lines.logged(f"error[PEN-6001]: {reason}")
            first.ended = 1

    def stop() -> None:
        send_sigterm()
        # as the process itself does
        for child in shop.children:
            if child.ended is None:
                child.report("b/hole_b", status="stopped")

    status, said = shop.up({1_000: fail, 30_000: stop}, "--format", "json", *options)

    assert status == 1, said
    if options:
        assert "stopped   all" in said
        assert f"failed    a/hole_a  {reason}" in said
    else:
        assert f"failed    sql/a.sql  error[PEN-6001]: {reason}" in said
        assert "stopped   sql/b.sql" in said
    assert "failed    b/hole_b" not in said


def test_one_that_fails_at_its_last_batch_is_told_too(shop: Shop) -> None:
    """Its process ends by the signal, with its failure."""

    def stop() -> None:
        shop.children[0].stops_by_itself = False
        send_sigterm()

    def fail() -> None:
        child = shop.children[0]
        assert child.stops == 1
        child.report("a/hole_a", status="failed", reason="the table is gone")
        child.ended = 1

    status, said = shop.up({1_000: stop, 2_000: fail})

    assert status == 1, said
    assert "failed    a/hole_a  the table is gone" in said


def test_the_page_is_of_the_catalog_that_the_command_line_names(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its settings name that one, and what is examined of the machine asks it; its port has the project's metrics."""
    views: list[ProjectView] = []
    metrics: list[str] = []

    @contextmanager
    def serving(
        view: ProjectView, *_: object, registry: CollectorRegistry, **__: object
    ) -> Iterator[str]:
        views.append(view)
        metrics.append(generate_latest(registry).decode())
        yield "http://127.0.0.1:1/"

    monkeypatch.setattr(server, "serving_pages", serving)
    url = f"sqlite:///{tmp_path / 'elsewhere.db'}"

    status, said = shop.up({1_000: send_sigterm}, "--ui-port", "0", "--catalog", url)

    assert status == 0, said
    (view,) = views
    assert view.stored.catalog_url == url
    assert "elsewhere.db" in json.dumps(view.settings())
    assert "penstock_process_restarts_total" in metrics[0]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [((2, 2), 2), ((2, 0), 2), ((2, 1), 1), ((1, 1), 1), ((0, 0), 0)],
)
def test_the_status_is_2_where_all_that_failed_were_refused(
    shop: Shop, ends: tuple[int, int], expected: int
) -> None:
    """As for topics that are not there: a unit that starts again would start a Java process each time."""

    def end() -> None:
        for child, status in zip(shop.children, ends, strict=True):
            child.ended = status

    status, said = shop.up({1_000: end})

    assert status == expected, said


def test_what_waits_to_start_again_has_not_failed_at_the_signal(shop: Shop) -> None:
    """Its process ended by 75, as the catalog was away, and had reported each pipeline as failed."""

    def end() -> None:
        for name in ("a/hole_a", "b/hole_b"):
            shop.children[0].report(name, status="failed", reason="the catalog is away")
        shop.children[0].ended = 75

    status, said = shop.up({1_000: end, 1_400: send_sigterm}, "--shared")

    assert status == 0, said
    assert "stopped   all" in said
