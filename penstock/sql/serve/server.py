"""The whole of `penstock serve` beside Spark: what is ready before, the server, the catalog's changes, the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from ssl import SSLContext
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, assert_never

from penstock.catalog.errors import ConfigError, PenstockError, QueryFailedError
from penstock.connector.spark.internals import gateway_of, jvm_of
from penstock.sql.clock import SystemClock
from penstock.sql.jobs.job import Job
from penstock.sql.publish.publisher import CatalogPublisher
from penstock.sql.serve.connection_limits import Bounds
from penstock.sql.serve.front import Front, ThriftBackend
from penstock.sql.serve.ldap import BindServer, Directory
from penstock.sql.serve.password_file import check_users, is_right, read_users
from penstock.sql.serve.primary_keys import HiveKeys, primary_keys
from penstock.sql.serve.settings import Anyone, Ldap, Login, PasswordFile, ServeSettings, check_port
from penstock.sql.serve.thrift_server import ThriftServer, hive_properties
from penstock.sql.serve.tls import server_context
from penstock.sql.session.session import Session

if TYPE_CHECKING:
    from penstock.sql.clock import Clock
    from penstock.sql.runner.run_mode import StopRequest

__all__ = [
    "CatalogWatch",
    "Prepared",
    "Served",
    "prepared",
    "serving",
    "stop_jobs",
    "until_stopped",
]

BOUNDS = Bounds()
LOOK_INTERVAL_S = 0.25
"""How often the loop checks for a stop request."""

CHANGES_INTERVAL_S = 2.0
"""How often the catalog is asked for its newest change, which costs next to nothing."""

REFRESH_INTERVAL_S = 15.0
"""How often everything is looked at again: the tables that were defined, and now have their first rows."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a server needs beside Spark: `settings` that were checked, keys, and how this process gets into Spark's."""

    settings: ServeSettings
    properties: Mapping[str, str] = field(repr=False)
    password: str = field(repr=False)
    tls: SSLContext | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that runs: `settings` with the port that it got, the names that clients see, the jobs beside it."""

    session: Session
    settings: ServeSettings
    published: CatalogPublisher
    keys: HiveKeys
    jobs: tuple[Job, ...]

    def refresh(self) -> None:
        """Publish what was defined since, here or elsewhere. Raises CatalogError when the catalog cannot be read."""
        self.published.refresh()
        self.keys.replace(primary_keys(self.session.namespace, self.published.names))


@contextmanager
def prepared(settings: ServeSettings) -> Iterator[Prepared]:
    """Prepare what needs no Spark: keys, log-ins, a folder. Raises ConfigError, for a port in use too."""
    with ExitStack() as stack:
        tls = server_context(settings.tls)
        if isinstance(settings.login, PasswordFile):
            check_users(settings.login.path)
        check_port(settings)
        binding = stack.enter_context(BindServer())
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="penstock-serve-")))
        properties = hive_properties(
            log_in_url=binding.url, scratch=scratch, connections=BOUNDS.connections
        )
        yield Prepared(settings=settings, properties=properties, password=binding.password, tls=tls)


@contextmanager
def serving(session: Session, ready: Prepared, jobs: Sequence[Job]) -> Iterator[Served]:
    """Serve what the session publishes while this is entered. Raises ConfigError.

    Clients may do what `guard.allow_only_reading` lets them, when it was called before.
    """
    published = session.published
    assert published is not None, "the session publishes its catalog"
    settings = ready.settings
    jvm = jvm_of(session.spark)
    with ThriftServer(session.spark, ready.properties) as server:
        keys = HiveKeys(jvm, server.hive_conf)
        keys.replace(primary_keys(session.namespace, published.names))
        with Front(
            host=settings.host,
            port=settings.port,
            backend=ThriftBackend(port=server.port, password=ready.password),
            lets_in=_log_in(settings.login, jvm),
            tls=ready.tls,
            bounds=BOUNDS,
        ) as front:
            yield Served(
                session=session,
                settings=replace(settings, port=front.port),
                published=published,
                keys=keys,
                jobs=tuple(jobs),
            )


def _log_in(login: Login, jvm: object) -> Callable[[str, str], bool]:
    """How a name and a password are checked."""
    match login:
        case Anyone():
            return lambda _name, _password: True
        case PasswordFile(path=path):
            return partial(_by_file, path)
        case Ldap():
            return Directory(jvm, login).lets_in
    assert_never(login)


def _by_file(path: Path, name: str, password: str) -> bool:
    """Read the file again: users are added and removed without a restart. A damaged one refuses everybody."""
    try:
        return is_right(read_users(path), name, password)
    except ConfigError as error:
        log.error("nobody can log in: %s", error.message)  # noqa: TRY400  a message, no stack
        return False


def until_stopped(served: Served, request: StopRequest) -> bool:
    """Serve until the request is made; returns whether every job is well.

    Raises QueryFailedError when Spark's Java process has ended.
    """
    timer, clock, failed = Event(), SystemClock(), set[str]()
    watch = CatalogWatch(served, clock)
    while request.count == 0:
        timer.wait(LOOK_INTERVAL_S)
        _check_alive(served.session)
        for job in served.jobs:
            if job.exception is not None and job.name not in failed:
                failed.add(job.name)
                log.error("%s has failed, its table stays as it is: %s", job.name, job.exception)
        watch.refresh_when_due()
    return not failed


def stop_jobs(jobs: Sequence[Job], request: StopRequest) -> None:
    """Stop all jobs after their batch and wait for that; on a second request, stop them at once."""
    for job in jobs:
        job.request_stop()
    hurried = False
    while not all(job.wait(LOOK_INTERVAL_S) for job in jobs):
        if request.count > 1 and not hurried:
            hurried = True
            for job in jobs:
                job.request_stop(now=True)


class CatalogWatch:
    """Publishes changes of the catalog soon after they are made."""

    def __init__(self, served: Served, clock: Clock) -> None:
        self._served = served
        self._clock = clock
        self._newest = served.session.catalog.history(limit=1)
        self._asked_ms = self._refreshed_ms = clock.now_ms()

    def refresh_when_due(self) -> None:
        """Read the newest change, and refresh. A catalog that cannot be read is logged: what is published stays."""
        now_ms = self._clock.now_ms()
        if now_ms - self._asked_ms < CHANGES_INTERVAL_S * 1000:
            return
        self._asked_ms = now_ms
        try:
            newest = self._served.session.catalog.history(limit=1)
            if newest != self._newest or now_ms - self._refreshed_ms >= REFRESH_INTERVAL_S * 1000:
                self._served.refresh()
                self._newest, self._refreshed_ms = newest, now_ms
        except PenstockError as error:
            log.warning("the catalog's changes are not published: %s", error.message)


def _check_alive(session: Session) -> None:
    process = getattr(gateway_of(session.spark), "proc", None)
    if process is not None and process.poll() is not None:
        raise QueryFailedError(
            f"Spark's Java process has ended with status {process.returncode}",
            hint="its last words are in the newest file of .penstock/logs; "
            "more memory: --conf spark.driver.memory=4g",
        )
