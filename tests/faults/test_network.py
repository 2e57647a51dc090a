"""Between pipeline and broker the network delays, resets, and swallows answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.faulty import CATCH_UP_S, FaultyPipeline
from tests.faults.proxy import FAIR, Proxy, Weather
from tests.faults.test_broker import ENDLESS, RECOVERY_S, stop, until_all
from tests.faults.workload import COPY, Workload
from tests.kafka_listener import BrokerWithListener
from tests.kafka_server import KafkaServer

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(900)

SOCKET_TIMEOUT_S = 10
OPTIONS = f", 'properties.socket.timeout.ms' = '{SOCKET_TIMEOUT_S * 1000}'"
EACH = 20_000


@pytest.fixture
def proxy(seed: int) -> Iterator[Proxy]:
    """A proxy that listens."""
    proxy = Proxy(seed)
    proxy.listen()
    yield proxy
    proxy.close()


@pytest.fixture
def behind(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker whose second listener sends its clients through the proxy."""
    broker = BrokerWithListener(tmp_path_factory.mktemp("behind"), advertised_port=proxy.port)
    proxy.forward(broker.second_port)
    with broker:
        yield KafkaServer(broker)


@pytest.fixture
def remote(behind: KafkaServer, seed: int) -> Workload:
    """An empty topic of two partitions on that broker."""
    return Workload(behind, seed)


def script(remote: Workload, **more: int) -> str:
    """Copy the topic, by way of the proxy."""
    assert isinstance(remote.kafka.broker, BrokerWithListener)
    text = remote.script(COPY, options=OPTIONS, **more)
    return text.replace(remote.kafka.bootstrap, remote.kafka.broker.second_bootstrap)


@pytest.mark.faults
def test_answers_that_never_come(proxy: Proxy, pipeline: Make, remote: Workload) -> None:
    """Case 23: a connection whose one direction is gone is noticed after the socket's timeout at the latest."""
    remote.write(200)
    job = pipeline(script(remote), *ENDLESS)
    job.start_clean()
    until_all(job, remote, "the first rows")
    proxy.weather = Weather(deaf=True)
    job.pause(2)  # every connection of the job asks something meanwhile
    proxy.weather = FAIR
    remote.write(200)
    took_s = until_all(job, remote, "the rows after it")

    print(f"recovery in s: {took_s:.1f}")
    assert took_s <= SOCKET_TIMEOUT_S + RECOVERY_S
    stop(job, remote)


@pytest.mark.faults
def test_a_slow_network_that_resets_connections(
    proxy: Proxy, pipeline: Make, remote: Workload
) -> None:
    """Case 24: answers take 200 ms, and one in twenty is a reset instead: slower, and nothing else."""
    remote.write(EACH)
    took_s: list[float] = []
    for name, weather in (("fair", FAIR), ("foul", Weather(delay_s=0.2, resets=0.05))):
        proxy.weather = weather
        folder = Path.cwd() / name
        folder.mkdir()
        job = pipeline(script(remote, batch=EACH // 2), "--available-now", folder=folder)
        began = time.monotonic()
        job.start_clean()
        job.finish(2 * CATCH_UP_S)
        took_s.append(time.monotonic() - began)
        assert remote.check_copy(folder / "copied").findings == {}

    rows = 2 * EACH
    print(f"rows/s, start included: {rows / took_s[0]:.0f} fair, {rows / took_s[1]:.0f} foul")
    assert proxy.reset_connections > 0
