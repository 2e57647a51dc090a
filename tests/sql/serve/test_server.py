"""When the catalog's changes are published, and how jobs are stopped."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.catalog.errors import CatalogError
from penstock.sql.jobs.job import Job
from penstock.sql.runner.run_mode import StopRequest
from penstock.sql.serve.server import CatalogWatch, Served, hive_properties, stop_jobs


class Scripted:
    """A server with a catalog whose newest change is `change`; counts how often it was refreshed."""

    def __init__(self) -> None:
        self.change = "first"
        self.broken = False
        self.refreshed = 0
        self.asked = 0
        self.now_s = 0.0
        self.session = SimpleNamespace(catalog=self)

    def history(self, *, limit: int) -> list[str]:
        """What the catalog answers."""
        self.asked += 1
        if self.broken:
            raise CatalogError("the store is away")
        return [self.change][:limit]

    def refresh(self) -> None:
        """What the server would publish."""
        self.refreshed += 1

    def now_ms(self) -> int:
        """The clock."""
        return round(self.now_s * 1000)


@pytest.fixture
def world() -> Scripted:
    """A server at time 0."""
    return Scripted()


@pytest.fixture
def watch(world: Scripted) -> CatalogWatch:
    """What watches its catalog."""
    return CatalogWatch(cast("Served", world), cast("Any", world))


def look(world: Scripted, watch: CatalogWatch, at_s: float) -> int:
    """Look at a time; gives how often the server was refreshed so far."""
    world.now_s = at_s
    watch.refresh_when_due()
    return world.refreshed


def test_a_change_is_published_within_two_seconds(world: Scripted, watch: CatalogWatch) -> None:
    """Once; and the catalog is not asked more often than that."""
    world.change = "second"

    assert look(world, watch, 1.9) == 0
    assert world.asked == 1
    assert look(world, watch, 2.0) == 1
    assert look(world, watch, 4.0) == 1


def test_without_a_change_everything_is_looked_at_now_and_then(
    world: Scripted, watch: CatalogWatch
) -> None:
    """A table that was defined may have its first rows, which no definition tells."""
    assert look(world, watch, 14.9) == 0
    assert look(world, watch, 16.9) == 1
    assert look(world, watch, 30.0) == 1
    assert look(world, watch, 32.0) == 2


def test_a_catalog_that_cannot_be_read_is_asked_again(
    world: Scripted, watch: CatalogWatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is published stays, the log says why it is not renewed."""
    world.change, world.broken = "second", True
    while_broken = look(world, watch, 2.0)
    world.broken = False

    assert while_broken == 0
    assert "the store is away" in caplog.text
    assert look(world, watch, 4.0) == 1


class ScriptedJob:
    """A job that ends after `looks` waits, or when it is told to stop at once."""

    def __init__(self, looks: int, request: StopRequest) -> None:
        self.looks = looks
        self.request = request
        self.asked: list[bool] = []

    def request_stop(self, *, now: bool = False) -> None:
        """Remember how it was asked."""
        self.asked.append(now)

    def wait(self, timeout: float) -> bool:
        """Count down; the user presses Ctrl-C again at the fifth wait."""
        assert timeout > 0
        self.looks -= 1
        if self.looks == 100:
            self.request.count += 1
        return self.looks <= 0 or True in self.asked


def test_all_jobs_finish_their_batch_at_the_same_time() -> None:
    """All are asked before one is waited for, and none is asked twice."""
    request = StopRequest()
    request.count = 1
    jobs = [ScriptedJob(3, request), ScriptedJob(1, request)]
    stop_jobs(cast("list[Job]", jobs), request)

    assert [job.asked for job in jobs] == [[False], [False]]


def test_asked_again_jobs_stop_at_once() -> None:
    """Each is told so once."""
    request = StopRequest()
    request.count = 1
    jobs = [ScriptedJob(105, request), ScriptedJob(10_000, request)]
    stop_jobs(cast("list[Job]", jobs), request)

    assert [job.asked for job in jobs] == [[False, True], [False, True]]


# --- what Spark's Thrift server is told, in Hive's words ---


URL = "ldap://127.0.0.1:4711"


def properties() -> dict[str, str]:
    """The properties of a server for ten connections."""
    written = hive_properties(log_in_url=URL, scratch=Path("/tmp/s"), connections=10)
    return {key.removeprefix("hive.server2."): value for key, value in written.items()}


def test_the_thrift_server_is_for_the_front_alone() -> None:
    """On the loopback interface, and for whoever knows what the LDAP server of this process knows."""
    found = properties()

    assert (found["thrift.bind.host"], found["thrift.port"]) == ("127.0.0.1", "0")
    assert (found["authentication"], found["authentication.ldap.url"]) == ("LDAP", URL)
    assert found["transport.mode"] == "binary"
    assert int(found["thrift.max.worker.threads"]) > 10


def test_nobody_acts_for_another_user() -> None:
    """Statements run as the server's user, whatever a client says."""
    found = properties()

    assert (found["enable.doAs"], found["allow.user.substitution"]) == ("false", "false")


def test_nothing_is_written_outside_the_scratch_folder() -> None:
    """Hive's defaults are folders that all users of a machine share."""
    places = [value for value in properties().values() if value.startswith("/")]

    assert len(places) == 5
    assert all(place.startswith("/tmp/s/") for place in places)
