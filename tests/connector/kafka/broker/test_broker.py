"""The embedded broker as a process: it starts, dies, comes back with its data, and never outlives its parent."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.catalog.errors import BrokerUnavailableError, InputError
from penstock.connector.kafka.broker import record as probe
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.connector.kafka.broker.record import running_broker, stop_broker
from tests.kafka_server import KafkaServer

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A socket that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_port_where_nobody_listens_does_not_serve(listener: socket.socket) -> None:
    """A refused connection is a plain no."""
    port = listener.getsockname()[1]
    listener.close()

    assert not probe.serves("127.0.0.1", port)


def test_a_listener_that_is_no_broker_does_not_serve(listener: socket.socket) -> None:
    """Whoever closes without an answer is no broker."""

    def hang_up() -> None:
        connection, _ = listener.accept()
        connection.close()

    thread = threading.Thread(target=hang_up)
    thread.start()

    assert not probe.serves("127.0.0.1", listener.getsockname()[1])
    thread.join()


def test_a_taken_port_is_refused_before_anything_starts(
    tmp_path: Path, listener: socket.socket
) -> None:
    """The error names the port; no folder is made."""
    port = listener.getsockname()[1]

    with pytest.raises(InputError, match=f"port {port} of 127.0.0.1 is taken"):
        EmbeddedBroker(tmp_path / "kafka", port=port).start()

    assert not (tmp_path / "kafka").exists()


def test_a_record_of_a_test_that_the_broker_does_not_take_fails_the_test(
    kafka: KafkaServer,
) -> None:
    """The client counts it as delivered; a test that went on would wait for the row in vain."""
    topic = kafka.create_topic()

    with pytest.raises(AssertionError, match="did not take every record"):
        kafka.produce(topic, ["a"], partition=1)


@pytest.mark.broker
@pytest.mark.slow
def test_records_survive_a_kill(tmp_path: Path) -> None:
    """A killed broker comes back on the same port with what it had."""
    with EmbeddedBroker(tmp_path) as broker:
        server, address = KafkaServer(broker), broker.bootstrap
        topic = server.create_topic()
        server.produce(topic, ["a", "b"])
        broker.kill()

        assert running_broker(tmp_path) is None
        assert not probe.serves("127.0.0.1", broker.port)

        broker.start()

        assert broker.bootstrap == address
        assert server.watermarks(topic) == (0, 2)


@pytest.mark.broker
@pytest.mark.slow
def test_another_process_finds_and_stops_it(tmp_path: Path) -> None:
    """What `penstock kafka stop` does; a second broker on the folder is refused while the first runs."""
    with EmbeddedBroker(tmp_path) as broker:
        found = running_broker(tmp_path)
        with pytest.raises(InputError, match="already runs"):
            EmbeddedBroker(tmp_path).start()

        assert found is not None
        assert (found.pid, found.bootstrap) == (broker.pid, broker.bootstrap)
        assert stop_broker(tmp_path) == found
        assert stop_broker(tmp_path) is None
        broker.wait()


@pytest.mark.broker
@pytest.mark.slow
def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    """Kill -9 of the process that started it leaves no broker behind."""
    script = (
        "import os, pathlib, sys\n"
        "from penstock.connector.kafka.broker.broker import EmbeddedBroker\n"
        "broker = EmbeddedBroker(pathlib.Path(sys.argv[1]))\n"
        "broker.start()\n"
        "print(broker.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    # The broker does not hold this pipe's other end, its warden does: the end of output is the end of both.
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)

    assert run.returncode == -9
    assert int(run.stdout) > 0
    assert running_broker(tmp_path) is None


@pytest.mark.broker
def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The error carries the log's last word and names the log."""
    broker = EmbeddedBroker(tmp_path, settings={"log.segment.bytes": "nonsense"})

    with pytest.raises(BrokerUnavailableError, match=r"nonsense") as caught:
        broker.start()

    assert str(broker.log_file) in str(caught.value.hint)
    assert broker.pid is None
