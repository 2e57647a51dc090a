"""Spark's Python processes are forked from one that has imported what they need, or start as before."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.sql.spark_process.fork_client import SERVER, forked
from penstock.sql.spark_process.fork_server import SEGMENT_BYTES, ConfirmedAtOnce, fits
from penstock.sql.spark_process.python_processes import (
    ALLOCATORS,
    OF_SPARK,
    SCRIPT,
    SEARCH_PATH,
    SERVER_SCRIPT,
    STARTED,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it runs on Linux alone")

TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Running:
    """A fork server of a test, and how it is asked."""

    process: subprocess.Popen[bytes]
    folder: Path
    alive: int
    environment: dict[str, str]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    """A fork server in a folder of its own."""
    folder = tmp_path / "server"
    folder.mkdir(mode=0o700)
    path = str(folder / "socket")
    environment = {**ALLOCATORS, **os.environ, **OF_SPARK, SERVER: path, STARTED: sys.executable}
    closed, alive = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-P", SERVER_SCRIPT, path, str(closed)],
        env=environment,
        pass_fds=[closed],
        stdin=subprocess.DEVNULL,
    )
    os.close(closed)
    try:
        while not (folder / "socket").exists():
            assert process.poll() is None, "it has started"
        yield Running(process, folder, alive, environment)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(alive)


SECRET = b"told"


@contextmanager
def listening(
    environment: dict[str, str], worker: str = "pyspark.worker", folder: Path | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """A daemon of PySpark as Spark starts it, in a folder, and a connection for which it forks a worker."""
    process = subprocess.Popen(
        [SCRIPT, "-m", "pyspark.daemon", worker],
        env=environment | {"PYTHON_WORKER_FACTORY_SECRET": SECRET.decode()},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None, "started with a pipe"
        port = int.from_bytes(process.stdout.read(4), "big")
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as asked:
            yield process, asked
    finally:
        process.kill()
        process.communicate()


@contextmanager
def daemon(environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A daemon of PySpark as Spark starts it, and the process that it really is."""
    with listening(environment) as (process, asked):
        worker = int.from_bytes(asked.recv(4), "big")
        really = parent(worker)
        asked.close()
        yield process, really


def parent(process: int) -> int:
    """The process that began another one."""
    stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    return int(stat.rpartition(")")[2].split()[1])


def ended(process: int) -> None:
    """Wait for the end of a process that is no child of this one."""
    try:
        watched = os.pidfd_open(process)
    except ProcessLookupError:
        return
    with os.fdopen(watched) as file:
        import select

        assert select.select([file], [], [], TIMEOUT_S)[0], "it ends"


def test_a_process_is_forked(server: Running) -> None:
    """It has the files of the process that Spark started, which stands for it."""
    with daemon(server.environment) as (process, really):
        assert really != process.pid
        assert parent(really) == server.process.pid
        assert Path(f"/proc/{really}/comm").read_text(encoding="utf-8") == "pyspark.daemon\n"


def test_a_process_ends_when_spark_closes_its_input(server: Running) -> None:
    """As a daemon does; what stands for it ends with the status that a daemon has then."""
    plain = {name: value for name, value in server.environment.items() if name != SERVER}
    found = []
    for environment in (server.environment, plain):
        with daemon(environment) as (process, really):
            assert process.stdin is not None, "started with a pipe"
            process.stdin.close()
            process.stdin = None
            found.append(process.wait(TIMEOUT_S))
            ended(really)

    assert found[0] == found[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_ends_when_spark_ends_what_stands_for_it(
    server: Running, number: signal.Signals
) -> None:
    """The server notices, and goes on serving."""
    with daemon(server.environment) as (process, really):
        process.send_signal(number)
        ended(really)
    with daemon(server.environment) as (_, really):
        assert parent(really) == server.process.pid


LOST = """
import signal, sys
def once(*_):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGTERM, once)
print("ready", flush=True)
while True:
    signal.pause()
"""
"""A process that loses the first signal, as a daemon does that is in Python's code around a fork."""


@contextmanager
def asked_all_the_time(path: str) -> Iterator[None]:
    """Wake the server up ten times a second, as requests do."""
    done = threading.Event()

    def ask() -> None:
        while not done.wait(0.1):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


BINDS = """
import socket

def segment(bound):
    return bound.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)

def main(infile, outfile):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
    with socket.socket() as before, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert segment(before) == segment(bound)
    outfile.write(b"bound")
"""
"""A worker whose user binds sockets."""


def test_what_is_sent_to_a_worker_is_confirmed_at_once(server: Running, tmp_path: Path) -> None:
    """By segments so small that more than one comes of all but the smallest pieces; sockets of users stay as they are."""
    (tmp_path / "pyspark_binds.py").write_text(BINDS, encoding="utf-8")
    with listening(server.environment, "pyspark_binds", tmp_path) as (_, asked):
        segment = asked.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        asked.sendall(len(SECRET).to_bytes(4, "big") + SECRET)
        asked.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: asked.recv(100), b""))

    assert segment <= SEGMENT_BYTES
    # behind the number of its process, and that the secret is right
    assert answer[4:] == b"\0\0\0\2okbound"


def test_only_the_first_socket_of_a_process_is_asked_for_small_segments() -> None:
    """A datagram before it is none, and its workers have sockets of their users alone."""
    hook, worker = ConfirmedAtOnce(os.getpid()), ConfirmedAtOnce(os.getpid() + 1)
    with ExitStack() as opened:
        datagrams, first, second, of_worker = (
            opened.enter_context(socket.socket(socket.AF_INET, kind))
            for kind in (socket.SOCK_DGRAM, *[socket.SOCK_STREAM] * 3)
        )
        usual = first.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for bound in (datagrams, first, second):
            hook("socket.bind", (bound, ("127.0.0.1", 0)))
        worker("socket.bind", (of_worker, ("127.0.0.1", 0)))
        found = [
            of.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            for of in (first, second, of_worker)
        ]

    assert [bool(of) for of in found] == [True, False, False]
    assert not usual


@pytest.mark.parametrize("asked", [False, True])
def test_a_process_that_lost_its_signal_is_told_again(
    server: Running, tmp_path: Path, *, asked: bool
) -> None:
    """Each second, until it ends; also where the server is asked for others all the time."""
    (tmp_path / "lost.py").write_text(LOST, encoding="utf-8")
    path = str(server.folder / "socket")
    asking = f"from {forked.__module__} import forked; forked({path!r}, ['lost'], {TIMEOUT_S})"
    process = subprocess.Popen(
        [sys.executable, "-c", asking],
        env=server.environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None, "started with a pipe"
    with process:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        with asked_all_the_time(path) if asked else nullcontext():
            all_that_had_the_pipe_ended, _ = process.communicate(timeout=TIMEOUT_S)
        assert all_that_had_the_pipe_ended == b""


def test_another_environment_has_an_interpreter_of_its_own(server: Running) -> None:
    """What was imported may have read it."""
    with daemon({**server.environment, "ARROW_USER_SIMD_LEVEL": "NONE"}) as (process, really):
        assert really == process.pid


def test_without_a_server_an_interpreter_starts(server: Running) -> None:
    """One that was killed costs a start, no query."""
    server.process.kill()
    server.process.wait()
    with daemon(server.environment) as (process, really):
        assert really == process.pid


def test_a_request_that_is_none_is_left(server: Running) -> None:
    """The next one is served."""
    for nonsense in (b"", b"?", b"?\xff\xff\xff\xff"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(server.folder / "socket"))
            socket.send_fds(client, [nonsense or b"-"], [0, 1, 2][: len(nonsense)])
            client.shutdown(socket.SHUT_WR)
            client.recv(1)
    with daemon(server.environment) as (_, really):
        assert parent(really) == server.process.pid


def test_the_server_ends_with_the_process_that_started_it(server: Running) -> None:
    """However that ends: its pipe is closed. Nothing is left in the temporary folder."""
    copy = os.dup(server.alive)
    os.close(server.alive)
    os.dup2(copy, server.alive)  # the fixture's number stays one of this process
    os.close(copy)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, server.alive)
    os.close(null)

    assert server.process.wait(TIMEOUT_S) == 0
    assert not server.folder.exists()


def test_a_process_may_have_as_many_files_as_one_that_java_starts(server: Running) -> None:
    """Java raises its limit, which its processes have; this one had less."""
    few, most = 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (few, most))
    with daemon(server.environment) as (process, really):
        assert parent(really) == server.process.pid
        of_java = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        assert of_java[0] != few
        assert resource.prlimit(really, resource.RLIMIT_NOFILE) == of_java


def test_a_socket_of_another_account_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment may hold what is nobody else's; the name of the folder is seen in a list of processes."""
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert forked(str(path), ["pyspark.daemon"], timeout_s=TIMEOUT_S) is None
        client, _ = listening.accept()
        with client:
            assert client.recv(1) == b""


def test_a_server_that_cannot_import_leaves_no_folder(server: Running, tmp_path: Path) -> None:
    """Processes start as before then."""
    folder, broken = tmp_path / "broken", tmp_path / "modules"
    folder.mkdir()
    (broken / "pyspark").mkdir(parents=True)
    (broken / "pyspark" / "__init__.py").write_text("raise ImportError", encoding="utf-8")
    closed, alive = os.pipe()
    done = subprocess.run(
        [sys.executable, "-P", SERVER_SCRIPT, str(folder / "socket"), str(closed)],
        env={**server.environment, SEARCH_PATH: str(broken)},
        pass_fds=[closed],
        stderr=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=False,
    )
    os.close(closed)
    os.close(alive)

    assert done.returncode
    assert not folder.exists()


def test_a_folder_that_is_gone_ends_no_process(server: Running) -> None:
    """Temporary folders are tidied by others, too."""
    with daemon(server.environment) as (process, really):
        shutil.rmtree(server.folder)
        assert parent(really) == server.process.pid
    with daemon(server.environment) as (process, really):
        assert really == process.pid


@pytest.mark.parametrize(
    ("more", "fitting"),
    [
        ({"SPARK_ANYTHING": "1", "PYTHON_WORKER_FACTORY_PORT": "1"}, True),
        ({"OMP_NUM_THREADS": "1"}, True),
        ({"OMP_NUM_THREADS": "8"}, False),
        ({}, True),
        (ALLOCATORS, True),
        ({"MIMALLOC_PURGE_DELAY": "0"}, False),
        ({"PYTHONPATH": "/of/a/user"}, False),
        ({"TZ": "UTC"}, False),
    ],
)
def test_what_spark_sets_for_a_process_does_not_matter(more: dict[str, str], fitting: bool) -> None:
    """All else does: it may be read when a library is loaded."""
    present = {"HOME": "/", "OMP_NUM_THREADS": "1", **ALLOCATORS}

    assert fits({"HOME": "/", **more}, present) is fitting


@pytest.mark.spark
def test_workers_of_spark_are_forked(spark: SparkSession) -> None:
    """The environment of Spark's own processes is one that fits."""

    def ancestors(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            found = Path(f"/proc/{os.getppid()}/cmdline").read_text(encoding="utf-8")
            yield pa.RecordBatch.from_pydict({"command": [found]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(ancestors, "command STRING").collect()

    assert SERVER_SCRIPT.name in row.command
