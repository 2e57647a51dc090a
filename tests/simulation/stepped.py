"""The local executor without its threads: the product's own parts, each stepped by the simulation.

What waits there (for records, room, messages, time) returns at once here, or lets the rest of the world go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from unittest import mock

from penstock.connector.local import job as job_module
from penstock.connector.local import job_master as master_module
from penstock.connector.local.job_master import JobMaster
from penstock.connector.local.messages import MasterMessage
from penstock.connector.local.reader import Emission, Output, ReaderContext
from tests.simulation.stepped_reader import (
    JobContext,
    ReaderKilledError,
    SteppedReader,
    SteppedSourceReader,
)

if TYPE_CHECKING:
    from tests.simulation.job import Job

__all__ = [
    "SteppedMaster",
    "SteppedOutput",
    "SteppedWorker",
    "without_threads",
]


@dataclass(order=True, slots=True)
class _Call:
    due_ms: int
    number: int
    work: Callable[[], Any]
    done: Callable[[Any, Exception | None], None]
    every_ms: int | None


class SteppedWorker:
    """The worker's calls, one a step."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._calls: list[_Call] = []
        self._number = 0
        self._closed = False
        job.worker = self

    def start(self) -> None:
        """Nothing to start."""

    @property
    def busy(self) -> bool:
        """Whether a call is due."""
        return any(call.due_ms <= self._job.run.now_ms for call in self._calls)

    def call(
        self,
        work: Callable[[], Any],
        done: Callable[[Any, Exception | None], None],
        *,
        delay_ms: int = 0,
        every_ms: int | None = None,
    ) -> None:
        """Take on a call."""
        if not self._closed:
            self._number += 1
            due_ms = self._job.run.now_ms + delay_ms
            self._calls.append(_Call(due_ms, self._number, work, done, every_ms))

    def step(self) -> None:
        """Do the call that is due first."""
        due = [call for call in self._calls if call.due_ms <= self._job.run.now_ms]
        if not due:
            return
        call = min(due, key=attrgetter("due_ms", "number"))
        self._calls.remove(call)
        if call.every_ms is not None:
            call.due_ms = max(call.due_ms + call.every_ms, self._job.run.now_ms)
            self._calls.append(call)
        result, failure = None, None
        try:
            result = call.work()
        except Exception as error:  # noqa: BLE001  whoever asked is told
            failure = error
        call.done(result, failure)

    def close(self, last: Callable[[], None], timeout_s: float) -> bool:
        """Drop all calls."""
        self._closed = True
        self._calls.clear()
        last()
        return True


class SteppedOutput(Output):
    """The output; while it is full the rest of the world goes on inside of a `put`."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.capacity)
        self._job = job
        job.output = self

    @property
    def closed(self) -> bool:
        """Whether nobody takes anything any more."""
        return self._closed

    def put(self, emission: Emission) -> bool:
        """Add rows once there is room."""
        reader = self._job.readers[emission.reader]
        if not self.has_room:
            self._job.run.probe("backpressure")
            reader.witness.block()
            self._job.world.go_on_until(lambda: self.has_room or not reader.lives)
            reader.witness.unblock()
        if not reader.lives:
            raise ReaderKilledError
        taken = super().put(emission)
        if taken:
            reader.witness.emitted(emission)
        return taken


class SteppedMaster(JobMaster):
    """The coordinator's thread, one message or timer a step."""

    def __init__(
        self, job: Job, settings: Any, parts: Any, make_context: Callable[..., Any]
    ) -> None:
        def context(post: Callable[[MasterMessage], None]) -> JobContext:
            job.deliver = post
            made = make_context(job.under_way)
            fields = {name: getattr(made, name) for name in ReaderContext.__dataclass_fields__}
            return JobContext(**fields, job=job)

        super().__init__(settings, parts, context)
        self._job = job
        self._begun = False
        self._closed = False
        job.master = self

    def start(self) -> None:
        """Be stepped."""

    def stop(self, timeout_s: float) -> None:
        """End now."""
        self._over = True
        self._end()

    @property
    def over(self) -> bool:
        """Whether the job is over, one way or the other."""
        return self._closed

    def step(self) -> None:
        """Do one turn of the thread's loop."""
        if self._closed:
            return
        try:
            if self._begun:
                self._turn()
            else:
                self._begun = True
                self._start_timers()
                self._perform(self._parts.coordinator.start())
                for number in range(self._settings.readers):
                    self._start_reader(number)
        except Exception as error:  # noqa: BLE001  as the thread does
            self._fail(error)
        if self._over:
            self._end()

    def _turn(self) -> None:
        message = self._mailbox.take(0.0)
        if message is not None:
            self._job.witness.arrives(message)
            self._on(message)
        for act in self._timers.due():
            act()

    def _announce(self) -> None:
        self._job.witness.announcing()
        super()._announce()

    def _end(self) -> None:
        if not self._closed:
            self._closed = True
            self._close()


@contextmanager
def without_threads(current: Callable[[], Job]) -> Iterator[None]:
    """Let the local executor be made of stepped parts; `current` is the job that is being opened."""
    stepped = {
        "Worker": lambda _clock, _name: SteppedWorker(current()),
        "Output": lambda: SteppedOutput(current()),
        "SourceReader": SteppedSourceReader,
        "JobMaster": lambda *parts: SteppedMaster(current(), *parts),
    }
    with (
        mock.patch.multiple(job_module, **stepped),
        mock.patch.object(master_module, "LocalReader", SteppedReader),
    ):
        yield
