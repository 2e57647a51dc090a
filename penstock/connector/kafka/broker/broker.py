"""A single-node Kafka broker (KRaft) as a child process, started from pinned jars."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from penstock.catalog.errors import BrokerUnavailableError, InputError
from penstock.catalog.secrets.private_folder import make_data_folder
from penstock.connector.jvm import parent_watchdog
from penstock.connector.jvm.interrupts import interrupts_deferred
from penstock.connector.jvm.jars import JarSet, fetch_jars, read_jar_set
from penstock.connector.jvm.java import find_java
from penstock.connector.kafka.broker import record
from penstock.connector.kafka.broker.properties import (
    LOG4J,
    SETTINGS,
    cluster_id,
    properties_text,
)
from penstock.connector.kafka.broker.record import (
    HOST,
    BrokerRecord,
    record_path,
    running_broker,
    write_record,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def broker_jar_set() -> JarSet:
    """Kafka 4.2.0 with all it needs, and log4j's binding so that the broker's log can be read."""
    return read_jar_set(Path(__file__).with_name("kafka-broker.jars"))


def broker_jars() -> list[Path]:
    """The broker's jars, fetched on the first call on a machine. Raises RunError when they cannot be had."""
    return fetch_jars(broker_jar_set())


START_TIMEOUT_S = 60.0
"""A start takes 2 s on an idle machine; the rest is for a busy one and for recovery after a kill."""

STOP_TIMEOUT_S = 15.0
"""A clean stop takes 0.3 s."""

PORT_ATTEMPTS = 3
"""Times another free port is tried when someone took the first one between finding and using it."""


class EmbeddedBroker:
    """One broker over one data folder. Usable as a context manager; `start` and `stop` may be repeated."""

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int = 0,
        heap_mb: int = 512,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Nothing is started yet. `port` 0 takes a free one at the first start and keeps it after that.

        `settings` are broker properties that replace or join the defaults.
        """
        self.data_dir = data_dir.absolute()
        self.port = port
        self.heap_mb = heap_mb
        self.settings = {**SETTINGS, **(settings or {})}
        self._controller_port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._warden: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Value for `properties.bootstrap.servers`; the port is known after the first start."""
        return f"{HOST}:{self.port}"

    @property
    def log_file(self) -> Path:
        """The broker's log, kept and appended to over restarts."""
        return self.data_dir / "broker.log"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def start(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start and wait until the broker answers.

        Raises InputError when the port is taken or another broker runs on the folder, BrokerUnavailableError
        when it does not come up.
        """
        if self.pid is not None:
            return
        if (other := running_broker(self.data_dir)) is not None:
            raise InputError(
                f"a broker already runs on {self.data_dir}: {other.bootstrap}, process {other.pid}",
                hint="use that one, stop it with 'penstock kafka stop', or name another folder",
            )
        if self.port:
            require_free(self.port)
        make_data_folder(self.data_dir)
        wanted = self.port
        for attempt in range(PORT_ATTEMPTS):
            self.port = wanted or free_port()
            self._controller_port = free_port()
            try:
                self._launch()
                if self._came_up(timeout_s):
                    return
            except BaseException:
                self.kill()
                raise
            port_lost = "Address already in use" in self._log_tail(4000)
            if not port_lost or wanted or attempt == PORT_ATTEMPTS - 1:
                break
        self.kill()
        raise BrokerUnavailableError(
            f"the Kafka broker on {self.data_dir} did not start within {timeout_s:g} s: {self._last_error()}",
            hint=f"its log is {self.log_file}",
        )

    def stop(self) -> None:
        """Stop cleanly; kill what does not stop within STOP_TIMEOUT_S. Nothing happens when it is not running."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once, as a crash would. The data stays; the next start recovers it."""
        self._end(getattr(signal, "SIGKILL", signal.SIGTERM))

    def wait(self) -> int:
        """Block until the process ends, whoever ended it; its exit status."""
        assert self._process is not None, "wait() before start()"
        status = self._process.wait()
        self._end(signal.SIGTERM)
        return status

    def _launch(self) -> None:
        """Write the settings and start the broker's process with its warden."""
        java = str(find_java().executable)
        (self.data_dir / "log4j2.properties").write_text(LOG4J, encoding="utf-8")
        properties = self.data_dir / "server.properties"
        properties.write_text(self._properties(), encoding="utf-8")
        classpath = os.pathsep.join(str(jar) for jar in broker_jars())
        log4j = f"-Dlog4j2.configurationFile={(self.data_dir / 'log4j2.properties').as_posix()}"
        command = [
            java,
            f"-Xmx{self.heap_mb}m",
            # It moves bytes and lives for minutes: the second compiler would take more than it gives.
            "-XX:TieredStopAtLevel=1",
            "-Djava.awt.headless=true",
            log4j,
            "-cp",
            classpath,
        ]
        with self.log_file.open("ab") as log:
            if not (self.data_dir / "data" / "meta.properties").exists():
                arguments = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id()}"]
                arguments += ["--config", str(properties)]
                subprocess.run([*command, *arguments], stdout=log, stderr=log, check=False)
            self._spawn([*command, "kafka.Kafka", str(properties)], log)

    def _spawn(self, command: list[str], log: BinaryIO) -> None:
        """Start the broker's process with its warden: both or neither, whatever comes in between."""
        with interrupts_deferred():
            # A session of its own: Ctrl-C in a terminal is for us; we then stop the broker in our own time.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            self._warden = subprocess.Popen(
                [sys.executable, "-I", "-S", parent_watchdog.__file__, str(self._process.pid)],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
            atexit.register(self.stop)
            write_record(self.data_dir, BrokerRecord(pid=self._process.pid, port=self.port))

    def _properties(self) -> str:
        """Text of server.properties."""
        return properties_text(
            self.settings,
            data=self.data_dir / "data",
            port=self.port,
            controller_port=self._controller_port,
        )

    def _came_up(self, timeout_s: float) -> bool:
        """Wait for the first answer; False when the process ends or the time is over."""
        assert self._process is not None, "no process was started"
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                return False
            if record.serves(HOST, self.port):
                return True
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
        return False

    def _end(self, with_signal: int) -> None:
        """Send the signal, wait, and take down what belongs to the process. Repeating it does nothing."""
        process, self._process = self._process, None
        guard, self._warden = self._warden, None
        if process is not None:
            process.send_signal(with_signal)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            record_path(self.data_dir).unlink(missing_ok=True)
            atexit.unregister(self.stop)
        if guard is not None:
            guard.kill()
            if guard.stdin is not None:
                guard.stdin.close()
            guard.wait()

    def _log_tail(self, size: int) -> str:
        """The last `size` bytes of the log."""
        with suppress(OSError):
            return self.log_file.read_bytes()[-size:].decode("utf-8", "replace")
        return ""

    def _last_error(self) -> str:
        """What the log says about why, in one line."""
        lines = self._log_tail(20_000).splitlines()
        marks = (" ERROR ", " FATAL ", "Exception", "Error")
        named = [line for line in lines if any(mark in line for mark in marks)]
        return (named or lines or ["it wrote no log"])[-1].strip()[:300]


def free_port() -> int:
    """A port on which no process listens now."""
    with socket.socket() as candidate:
        candidate.bind((HOST, 0))
        return int(candidate.getsockname()[1])


def require_free(port: int) -> None:
    """Raise InputError when a process listens on the port."""
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((HOST, port))
        except OSError as error:
            raise InputError(
                f"port {port} of {HOST} is taken: {error.strerror}",
                hint="name another one with --port, or 0 for any free one",
            ) from error
