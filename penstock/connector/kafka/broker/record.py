"""The record of a running embedded broker beside its data, by which another process finds, probes and stops it."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

HOST = "127.0.0.1"
"""The embedded broker serves this machine only."""

STOP_TIMEOUT_S = 15.0
"""A clean stop takes 0.3 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord:
    """What a running broker writes down beside its data for other processes."""

    pid: int
    port: int

    @property
    def bootstrap(self) -> str:
        """Value for `properties.bootstrap.servers`."""
        return f"{HOST}:{self.port}"


def running_broker(data_dir: Path) -> BrokerRecord | None:
    """The broker that runs on the folder, of whatever process; None when there is none."""
    try:
        text = record_path(data_dir).read_text(encoding="utf-8")
        record = BrokerRecord(**json.loads(text))
    except (OSError, ValueError, TypeError):
        return None
    return record if is_broker(record.pid, data_dir) else None


def stop_broker(data_dir: Path) -> BrokerRecord | None:
    """Stop the broker that runs on the folder and wait for its end; the one stopped, or None."""
    record = running_broker(data_dir)
    if record is None:
        return None
    deadline = time.monotonic() + STOP_TIMEOUT_S
    with suppress(OSError):
        os.kill(record.pid, signal.SIGTERM)
        while is_broker(record.pid, data_dir) and time.monotonic() < deadline:
            time.sleep(0.05)
        if is_broker(record.pid, data_dir):
            os.kill(record.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    record_path(data_dir).unlink(missing_ok=True)
    return record


def record_path(data_dir: Path) -> Path:
    """Where a running broker is written down."""
    return data_dir / "broker.json"


def write_record(data_dir: Path, record: BrokerRecord) -> None:
    """Write the record in one step."""
    temporary = data_dir / f".broker.json.{os.getpid()}"
    temporary.write_text(json.dumps(asdict(record)), encoding="utf-8")
    temporary.replace(record_path(data_dir))


def is_broker(pid: int, data_dir: Path) -> bool:
    """Return whether process `pid` is a broker on this folder and not another one that got the number later."""
    mark = str(data_dir.absolute() / "server.properties")
    with suppress(OSError):
        return mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    if Path("/proc/self").exists():
        return False
    with suppress(OSError, subprocess.SubprocessError):
        command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        return mark in subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return False


METADATA_KEY = 3

METADATA_VERSION = 1
"""Kafka protocol: with version 1 an empty topic array asks for the brokers alone."""


def serves(host: str, port: int, *, timeout_s: float = 1.0) -> bool:
    """True when the broker answers and is itself among the brokers it knows (registered and unfenced)."""
    client_id = b"penstock-probe"
    header = struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, 1, len(client_id)) + client_id
    request = header + struct.pack(">i", 0)
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", receive(connection, 4))
            _correlation_id, brokers = struct.unpack_from(">ii", receive(connection, min(size, 8)))
    except (OSError, struct.error):
        return False
    return bool(brokers > 0)


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes; struct.error follows when the other side closes before."""
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data
