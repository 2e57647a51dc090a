"""The whole of `penstock serve` beside Spark: what is ready before, the server, the catalog's changes, the end.

Spark's Thrift server (HiveServer2's protocol) runs in the Java process of a session.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from ssl import SSLContext
from tempfile import TemporaryDirectory
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, assert_never

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.catalog.errors import ConfigError, PenstockError, QueryFailedError
from penstock.connector.spark.internals import gateway_of, java_session, jvm_of
from penstock.sql.clock import SystemClock
from penstock.sql.jobs.job import Job
from penstock.sql.publish.publisher import CatalogPublisher
from penstock.sql.serve.connection_limits import Bounds
from penstock.sql.serve.front import Front, ThriftBackend
from penstock.sql.serve.ldap import BindServer, Directory
from penstock.sql.serve.password_file import check_users, is_right, read_users
from penstock.sql.serve.primary_keys import HiveKeys, primary_keys
from penstock.sql.serve.settings import Anyone, Ldap, Login, PasswordFile, ServeSettings, check_port
from penstock.sql.serve.tls import server_context
from penstock.sql.session.session import Session

if TYPE_CHECKING:
    from penstock.sql.clock import Clock
    from penstock.sql.runner.run_mode import StopRequest


CONNECT_TIMEOUT_S = 20.0
HOST = "127.0.0.1"
SPARE_THREADS = 16
"""For connections of other processes, which do not get in."""


def class_path_conf(jars: list[Path]) -> dict[str, str]:
    """Settings for the start of Spark: a connection that names a database loads Delta's catalog with Hive's class
    loader, which knows the class path only, not `spark.jars`.
    """
    return {"spark.driver.extraClassPath": ":".join(str(jar) for jar in jars)}


def hive_properties(*, log_in_url: str, scratch: Path, connections: int) -> dict[str, str]:
    """Return Hive's properties for what is served: on the loopback interface, to the front of this process alone.

    `log_in_url` is the LDAP server that knows the front's password. Port 0 lets the server take any that is free, in
    the moment in which it listens: one that was looked for before Spark starts may be some connection's by then.
    """
    return {
        "hive.server2.transport.mode": "binary",
        "hive.server2.thrift.bind.host": HOST,
        "hive.server2.thrift.port": "0",
        "hive.server2.thrift.max.worker.threads": str(connections + SPARE_THREADS),
        "hive.server2.use.SSL": "false",
        "hive.server2.authentication": "LDAP",
        "hive.server2.authentication.ldap.url": log_in_url,
        # statements run as the server's user in any case: no other account of the machine is looked up
        "hive.server2.enable.doAs": "false",
        "hive.server2.allow.user.substitution": "false",
        "hive.server2.logging.operation.enabled": "false",
        "hive.exec.scratchdir": str(scratch / "scratch"),
        "hive.exec.local.scratchdir": str(scratch / "local"),
        "hive.downloaded.resources.dir": str(scratch / "resources"),
        "hive.querylog.location": str(scratch / "log"),
        "derby.stream.error.file": str(scratch / "derby.log"),
    }


class ThriftServer:
    """A Thrift server that runs while it is entered. Raises ConfigError when it does not come up."""

    def __init__(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        self._session = java_session(spark)
        self._jvm = jvm_of(spark)
        self._properties = dict(properties)
        self._server: Any = None

    @property
    def port(self) -> int:
        """Where it listens."""
        listening = (s for s in self._server.getServices() if s.getName().startswith("Thrift"))
        return int(next(listening).getPortNumber())

    @property
    def hive_conf(self) -> Any:
        """The server's HiveConf, which names its metastore."""
        return self._server.getHiveConf()

    def __enter__(self) -> Self:
        system = self._jvm.java.lang.System
        for key, value in self._properties.items():
            system.setProperty(key, value)
        thrift = self._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
        try:
            self._server = thrift.startWithSparkSession(self._session, False)
            self._connect()
        except (Py4JJavaError, OSError) as error:
            self.stop()
            raise ConfigError(f"Spark's Thrift server did not start: {_reason(error)}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Refuse new connections, and end the open ones."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        system = self._jvm.java.lang.System
        for key in self._properties:
            system.clearProperty(key)

    def _connect(self) -> None:
        """Find out whether it listens: a server that cannot only logs so, on a thread of its own."""
        socket.create_connection((HOST, self.port), CONNECT_TIMEOUT_S).close()


def _reason(error: Py4JJavaError | OSError) -> str:
    """All messages of a Java error, outermost first: the failure, then its causes."""
    if isinstance(error, OSError):
        return str(error)
    said: list[str] = []
    cause = error.java_exception
    while cause is not None:
        said.append(str(cause.getMessage() or cause))
        cause = cause.getCause()
    return ": ".join(said)


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
