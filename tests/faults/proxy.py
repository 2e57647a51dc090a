"""A TCP proxy in front of a server that does to connections what networks do: delays, resets, answers that never come."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

HOST = "127.0.0.1"
CHUNK = 65_536

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What befalls the bytes. `deaf`: the broker's answers are dropped, and those on a connection that lost one
    ever after; `resets`: chance, for each answer, that the connection is reset instead; `lost`: a connection is reset
    in the place of the answer to a request that ends so, the first time.
    """

    delay_s: float = 0.0
    resets: float = 0.0
    deaf: bool = False
    lost: bytes = b""


FAIR = Weather()


class Proxy:
    """Listens on a port of its own from `start` on, in a thread of its own. `weather` may change at any time."""

    def __init__(self, seed: int) -> None:
        """Nothing listens yet; what is drawn comes of `seed`."""
        self.weather = FAIR
        self.port = 0
        self.reset_connections = 0
        self._target = 0
        self._draw = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._pumps: set[asyncio.Task[None]] = set()

    def listen(self) -> None:
        """Take a port; connections wait until `forward` says where to."""
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._connected, HOST, 0))
        self.port = self._server.sockets[0].getsockname()[1]

    def forward(self, port: int) -> None:
        """Say which port of this machine connections go on to."""
        self._target = port

    def close(self) -> None:
        """Cut every connection, and listen no more."""
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _close(self) -> None:
        self._server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _connected(
        self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter
    ) -> None:
        try:
            broker_in, broker_out = await asyncio.open_connection(HOST, self._target)
        except OSError:
            client_out.close()
            return
        asked, doomed = asyncio.Event(), asyncio.Event()
        ways = (
            self._requests(client_in, broker_out, asked, doomed),
            self._answers(broker_in, client_out, asked, doomed),
        )
        tasks = [self._loop.create_task(way) for way in ways]
        self._pumps.update(tasks)
        # one end of a connection that is gone takes the other with it
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        self._pumps.difference_update(tasks)
        for writer in (client_out, broker_out):
            with suppress(Exception):
                writer.close()

    async def _requests(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        asked: asyncio.Event,
        doomed: asyncio.Event,
    ) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                asked.set()
                if self.weather.lost and data.endswith(self.weather.lost):
                    self.weather = replace(self.weather, lost=b"")
                    doomed.set()
                sink.write(data)
                await sink.drain()

    async def _answers(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        asked: asyncio.Event,
        doomed: asyncio.Event,
    ) -> None:
        """Carry bytes until an end closes; a delay keeps their order and takes no throughput away."""
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        carrier = self._loop.create_task(self._carry(due, sink))
        deaf = False
        try:
            while data := await source.read(CHUNK):
                weather = self.weather
                deaf = deaf or weather.deaf
                if deaf:
                    continue
                if doomed.is_set() or (asked.is_set() and self._draw.random() < weather.resets):
                    self.reset_connections += 1
                    sink.transport.abort()
                    return
                asked.clear()
                due.put_nowait((self._loop.time() + weather.delay_s, data))
        except OSError:
            return
        finally:
            carrier.cancel()

    async def _carry(
        self, due: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while True:
                at, data = await due.get()
                await asyncio.sleep(at - self._loop.time())
                sink.write(data)
                await sink.drain()
