"""One seed's run: what is random, what time it is, what happened so far. Nothing here knows what is simulated."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["Run", "SimulationError", "Violation"]

T = TypeVar("T")

START_MS = 1_000_000
LINES_SHOWN = 30


class Violation(BaseException):
    """An invariant does not hold; the message says which and with what values."""


class SimulationError(Exception):
    """A seed's run broke a rule: seed, step, rule, and the last lines of the trace; `lines` are all that are kept."""

    def __init__(self, message: str, lines: tuple[str, ...] = ()) -> None:
        super().__init__(message, lines)  # both, as it may have to be pickled
        self.lines = lines

    def __str__(self) -> str:
        return str(self.args[0])

    @classmethod
    def of(cls, run: Run, world: str, rule: str) -> SimulationError:
        """Make it from a run that stopped."""
        lines = tuple(run.trace)
        shown = "\n".join(lines[-LINES_SHOWN:])
        where = f"{world} world, seed {run.seed}, step {run.step}, {run.now_ms} ms"
        return cls(f"{where}: {rule}\n{shown}", lines)


class Run:
    """Everything that makes a run of one seed repeatable. `whole_trace` keeps all lines, else the last ones."""

    def __init__(self, seed: int, *, whole_trace: bool = False) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.step = 0
        self.probes: Counter[str] = Counter()
        self._now_ms = START_MS
        self._lines: deque[tuple[int, int, str, tuple[object, ...]]] = deque(
            maxlen=None if whole_trace else LINES_SHOWN
        )

    @property
    def now_ms(self) -> int:
        """The virtual time, ms."""
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Let time pass."""
        self._now_ms += by_ms

    def note(self, what: str, *details: object) -> None:
        """Add a line to the trace; formatted only if somebody reads it."""
        self._lines.append((self.step, self._now_ms, what, details))

    def probe(self, name: str) -> None:
        """Count that a rare path was reached."""
        self.probes[name] += 1

    @property
    def trace(self) -> list[str]:
        """The trace as text, a line each."""
        return [
            f"{step:6} {now_ms:9} ms  {what}" + "".join(f" {detail}" for detail in details)
            for step, now_ms, what, details in self._lines
        ]

    def chance(self, percent: float) -> bool:
        """Throw a coin."""
        return self.random.random() * 100 < percent

    def pick(self, among: Sequence[T]) -> T:
        """Pick one."""
        return among[int(self.random.random() * len(among))]

    def weighted(self, actions: Sequence[tuple[float, Callable[[], None]]]) -> Callable[[], None]:
        """Pick one by weight."""
        weights = [weight for weight, _ in actions]
        return self.random.choices(actions, weights)[0][1]
