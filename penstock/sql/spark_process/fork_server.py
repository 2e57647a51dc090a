"""The process that Spark's Python processes are forked from, with the modules of a query imported once.

Started as a file by `python_processes.py` beside Spark's Java process; asked by `fork_client.py`, through a socket in a
folder of this user alone. It ends with the process that started it, whose end closes a pipe.
"""

from __future__ import annotations

import gc
import importlib
import math
import os
import resource
import runpy
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from penstock.connector.registry import reader_modules
from penstock.sql.spark_process.fork_client import BEGIN, SERVED
from penstock.sql.spark_process.python_processes import ALLOCATORS

MODULES = (
    *SERVED,
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "penstock.connector.spark.source.data_source",
)
"""What every query's processes import."""

REQUEST_TIMEOUT_S = 5.0
"""For the rest of a request that has begun."""

MAX_REQUEST_BYTES = 4 << 20
"""Of arguments and environment; Linux allows two megabytes."""

SIGNAL_AGAIN_S = 1.0
"""How long a process has to end before it is told again: Python may lose a signal that comes where it forks."""

DAEMON = "pyspark.daemon"
"""The module that listens for Java, and forks workers."""

SEGMENT_BYTES = 1448
"""The largest segment that Java sends to a worker: that of an Ethernet."""

SPARKS_OWN = (
    "OLDPWD",
    "PWD",
    "PYSPARK_",
    "PYTHON_",
    "SHLVL",
    "SPARK_",
    "_",
)
"""How names of variables begin that Spark and its scripts set anew for each process, which reads them when it runs."""

LIBRARIES_READ = ALLOCATORS | {"OMP_NUM_THREADS": "1"}
"""Variables that libraries read when they are loaded: Spark sets these for tasks, and not for planning."""

ALLOCATOR = "JE_ARROW_MALLOC_CONF"
"""Settings of the allocator that comes with Arrow, whose thread would not go with a fork."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A process as Spark asked for it. `open_files` is how many it may have: Java raises its own limit."""

    folder: str
    umask: int
    open_files: int
    arguments: tuple[str, ...]
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class Born:
    """In a new process: what it has to become."""

    request: Request
    client: socket.socket
    files: tuple[int, ...]


@dataclass(slots=True)
class ForkServer:
    """Forks processes until `alive` is closed at its other end."""

    listening: socket.socket
    alive: int
    clients: dict[int, socket.socket | None] = field(default_factory=dict)
    """By the process that each stands for; None is one that has ended before it."""

    def serve(self) -> Born | None:
        """Return in each process that is forked, with what it has to become; None at the end."""
        ended, wakeup = socket.socketpair()
        ended.setblocking(False)
        wakeup.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake)
        again_at = time.monotonic()
        while True:
            poller = select.poll()
            for one in (self.alive, ended.fileno(), self.listening.fileno()):
                poller.register(one, select.POLLIN)
            for waiting in filter(None, self.clients.values()):
                poller.register(waiting.fileno(), select.POLLRDHUP)
            ending = [process for process, client in self.clients.items() if client is None]
            if not ending:
                again_at = time.monotonic() + SIGNAL_AGAIN_S
            timeout_s = max(0.0, again_at - time.monotonic()) if ending else None
            polled = poller.poll(None if timeout_s is None else math.ceil(timeout_s * 1000))
            ready = {number for number, _ in polled}
            if self.alive in ready:
                return None
            # however often it is asked for others meanwhile
            if time.monotonic() >= again_at:
                again_at = time.monotonic() + SIGNAL_AGAIN_S
                for process in ending:
                    os.kill(process, signal.SIGTERM)
            if ended.fileno() in ready:
                with suppress(BlockingIOError):
                    ended.recv(1024)
                self._bury()
            for process, client in self.clients.items():
                if client is not None and client.fileno() in ready:  # Spark has ended it
                    os.kill(process, signal.SIGTERM)
                    client.close()
                    self.clients[process] = None
            if self.listening.fileno() in ready and (born := self._answer()):
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for held in filter(None, (ended, wakeup, self.listening, *self.clients.values())):
                    held.close()
                os.close(self.alive)
                return born

    def _bury(self) -> None:
        """Tell clients whose process has ended."""
        while self.clients:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            if client := self.clients.pop(process):
                with suppress(OSError):
                    client.sendall(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
                client.close()

    def _answer(self) -> Born | None:
        """Fork a process for the next client; what it becomes is returned there."""
        try:
            client, _ = self.listening.accept()
        except OSError:
            return None  # it waits no longer
        client.settimeout(REQUEST_TIMEOUT_S)
        files: list[int] = []
        try:
            asked, files, _, _ = socket.recv_fds(client, 1, 3)
            request = _read_request(client) if asked and len(files) == 3 else None
            if request is not None and fits(request.environment, os.environ):
                process = os.fork()
                if not process:
                    return Born(request, client, tuple(files))
                self.clients[process] = client
        except (OSError, ValueError):
            pass  # the client becomes an interpreter of its own
        if client not in self.clients.values():
            client.close()
        for one in files:
            os.close(one)
        return None


def fits(wanted: dict[str, str], present: Mapping[str, str]) -> bool:
    """Return whether a process of an environment would have imported all as this one has."""
    differ = {
        name
        for name in wanted.keys() | present.keys()
        if wanted.get(name) != present.get(name) and not name.startswith(SPARKS_OWN)
    }
    return all(wanted.get(name, LIBRARIES_READ.get(name)) == present.get(name) for name in differ)


@dataclass(slots=True)
class ConfirmedAtOnce:
    """Lets the socket that a daemon listens on pass on that nothing small has to wait: a hook of audits.

    Java and a worker send a task, its rows and its result in pieces. By Nagle's algorithm a small piece waits until
    what was sent before is confirmed, and Linux puts that off by 40 ms, unless more than one segment has come: a
    segment on loopback has 64 KB. Java sets no TCP_NODELAY and has no setting for it, but sends segments as small as
    it is asked to; Linux puts them together on their way, so that they cost nothing. PySpark has no setting either,
    and its daemon makes the socket in a function that does all of its work. It is the first one of the `process`:
    those of workers are a user's, as are all that are bound later.
    """

    process: int
    is_done: bool = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Set what sockets have that the first one accepts."""
        if event != "socket.bind" or self.is_done or os.getpid() != self.process:
            return
        bound = arguments[0]
        if bound.family in (socket.AF_INET, socket.AF_INET6) and bound.type == socket.SOCK_STREAM:
            self.is_done = True
            # an error would be that of `bind`
            with suppress(OSError):
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)


def become(born: Born) -> None:
    """Run the module of a request in this new process, as `python -m` does. Raises SystemExit."""
    request = born.request
    born.client.settimeout(None)
    born.client.sendall(BEGIN)
    if born.client.recv(1) != BEGIN:
        os._exit(1)  # the client waits no longer
    born.client.close()
    for number, file in enumerate(born.files):
        os.dup2(file, number)
        os.close(file)
    os.umask(request.umask)
    with suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (request.open_files, most))
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    if not os.environ.get("PYTHONSAFEPATH"):
        sys.path.insert(0, request.folder)
    module = request.arguments[0]
    with suppress(OSError):
        Path("/proc/self/comm").write_text(module, encoding="utf-8")  # what `ps` and `top` show
    if module == DAEMON:
        sys.addaudithook(ConfirmedAtOnce(os.getpid()))
    sys.argv[:] = request.arguments
    sys.modules.pop(module, None)  # runs as __main__
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> None:
    """Serve at a path until a pipe is closed."""
    path, alive = sys.argv[1:]
    born = None
    try:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(path)
            listening.listen()
            preload()
            born = ForkServer(listening, int(alive)).serve()
    finally:
        if born is None:
            shutil.rmtree(Path(path).parent, ignore_errors=True)
    if born is not None:
        become(born)


def preload() -> None:
    """Import what queries need, apart from what garbage is collected of. Raises OSError where that starts threads."""
    before = dict(os.environ)
    os.environ[ALLOCATOR] = ",".join(
        filter(None, [before.get(ALLOCATOR), "background_thread:false"])
    )
    for name in (*MODULES, *reader_modules()):
        importlib.import_module(name)
    os.environ.clear()
    os.environ.update(before)
    if random := sys.modules.get("numpy.random"):
        os.register_at_fork(after_in_child=random.seed)  # each process has numbers of its own
    gc.collect()
    gc.freeze()
    if len([*Path("/proc/self/task").iterdir()]) > 1:
        raise OSError("threads do not go with a fork")


def _read_request(client: socket.socket) -> Request:
    length = int.from_bytes(_read(client, 4), "big")
    if length > MAX_REQUEST_BYTES:
        raise ValueError("a request of no length that Linux allows")
    folder, umask, open_files, count, *words = os.fsdecode(_read(client, length)).split("\0")
    variables = (word.partition("=") for word in words[int(count) :])
    return Request(
        folder=folder,
        umask=int(umask),
        open_files=int(open_files),
        arguments=tuple(words[: int(count)]),
        environment={name: value for name, _, value in variables},
    )


def _read(client: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        more = client.recv(length - len(found))
        if not more:
            raise OSError("the client has ended")
        found += more
    return found


def _wake(_number: int, _frame: FrameType | None) -> None:
    """Let a signal interrupt the poll, by the wakeup descriptor."""


if __name__ == "__main__":
    main()
