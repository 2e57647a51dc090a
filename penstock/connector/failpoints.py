"""Named places at which a fault test makes a process die, freeze, fail or wait. Inactive by default.

`PENSTOCK_FAILPOINTS` names them, as `name=action` or `name=action@count` with semicolons between; `count` is the
visit, counted from 1 in each process, at which the action is taken (default 1). Spark's Python processes inherit the
variable. Actions: `kill` ends the process as kill -9 does, `stop` freezes it (SIGSTOP), `fail` raises
QueryFailedError, `wait:FILE` goes on when FILE is gone. `PENSTOCK_FAILPOINTS_TAKEN` names a folder: each action that
is taken leaves a file there, with the process's id in it, and is taken by no other process again.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, assert_never

from penstock.catalog.errors import ConfigError, QueryFailedError, did_you_mean

VARIABLE = "PENSTOCK_FAILPOINTS"
FOLDER_VARIABLE = "PENSTOCK_FAILPOINTS_TAKEN"

FAILPOINTS: Mapping[str, str] = {
    "starting": "command: a query is about to start, first or again",
    "planned": "planner: a batch is decided, its end is not in the checkpoint yet",
    "partitioned": "planner: the end is in the checkpoint, the tasks are known, none has started",
    "offsets-committed": "planner: a batch is complete, its progress is published (Kafka: group offsets)",
    "read": "task: rows are fetched and decoded, Spark has not got them yet",
    "file-written": "task: its file of the target is whole and durable, Spark does not know of it yet",
    "read-to-end": "task: Spark has got all rows of the task",
    "sink-written": "command: one sink of a statement set has the batch, the sinks after it have not",
    "produced": "task of the Kafka sink: the broker has a slot's records, their transaction is open",
    "transaction-committed": "task of the Kafka sink: the slot's transaction is committed",
    "decided": "command: the file sink has the manifest of an INSERT OVERWRITE, its lease is not checked again yet",
    "taking-back": "command: the file sink is about to remove the manifest of an INSERT OVERWRITE that lost its lease",
    "moving": "command: the file sink is about to rename one of a batch's files into its place",
    "files-written": "command: tasks have written the files of a batch, no commit or manifest names them yet",
    "positions-known": "command: the rows that a batch replaces in a Delta table are known, nothing is committed yet",
    "put-together": "command: small files of a Delta table are written again as one, no commit names it yet",
    "carried-over": "command: rows that were deleted meanwhile are known of such a file, no commit names it yet",
    "replaced": "command: the table has such a file in place of the small ones, nothing behind the commit has run",
    "maintained": "command: the state of a maintained query has the batch, the sink has not",
    "state-written": "task: the state of a bucket has its file of a batch, no manifest names it yet",
    "state-sent": "command: the sink has a batch, the manifest of its state is not written yet",
    "state-merged": "command: files of keyed state are merged into new ones, no manifest names them yet",
    "written": "command: the sink has the batch, nothing that follows it has run",
    "committed": "command: what follows the sink has run too, the checkpoint does not know of it yet",
}
"""Every name, with the process that passes there and what it has done by then."""

KILLED = 137
"""Exit status of a process that ended itself, which shells also give for kill -9."""

LOOK_S = 0.02
"""Between two looks at the file of `wait:`."""

_ENTRY = re.compile(r"(?P<name>[^=]+)=(?P<action>kill|stop|fail|wait:.+?)(?:@(?P<count>[1-9]\d*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """End the process at once: no handler, no `finally`, no flush."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Freeze the process (SIGSTOP); SIGCONT resumes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """Raise QueryFailedError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Go on when `file` is gone."""

    file: Path


Action = Kill | Freeze | Fail | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Failpoint:
    """An action and the visit, from 1, at which it is taken."""

    action: Action
    count: int = 1


class Failpoints:
    """The failpoints of one process and its visits to them. Safe to use from any thread."""

    def __init__(self, points: Mapping[str, Failpoint], folder: Path | None = None) -> None:
        self._points = points
        self._folder = folder
        self._visits: Counter[str] = Counter()
        self._lock = threading.Lock()

    def reach(self, name: str) -> None:
        """Count a visit; take the action if it is the one. Raises QueryFailedError where the action is `fail`."""
        assert name in FAILPOINTS, f"the table of failpoints lacks {name}"
        with self._lock:
            self._visits[name] += 1
            visit = self._visits[name]
        point = self._points.get(name)
        if point is not None and visit == point.count and self._claim(name):
            _take(point.action, name)

    def _claim(self, name: str) -> bool:
        """Record in the folder that the action is taken; False where another process has it."""
        if self._folder is None:
            return True
        try:
            with (self._folder / name).open("x", encoding="ascii") as mark:
                mark.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True


def parse_failpoints(text: str) -> dict[str, Failpoint]:
    """Read the value of the variable. Raises ConfigError for a name or an action that is not known."""
    points: dict[str, Failpoint] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        found = _ENTRY.fullmatch(entry)
        if found is None:
            raise ConfigError(
                f"{VARIABLE}: {entry!r} is not a failpoint",
                hint="write name=kill, name=stop, name=fail or name=wait:FILE, each with @COUNT behind it or without",
            )
        name, action, count = found.group("name", "action", "count")
        if name not in FAILPOINTS:
            raise ConfigError(
                f"{VARIABLE}: there is no failpoint {name!r}",
                hint=did_you_mean(name, FAILPOINTS) or f"there are: {', '.join(FAILPOINTS)}",
            )
        points[name] = Failpoint(action=_action(action), count=int(count or 1))
    return points


def _action(text: str) -> Action:
    simple: dict[str, Action] = {"kill": Kill(), "stop": Freeze(), "fail": Fail()}
    return simple[text] if text in simple else Wait(file=Path(text.removeprefix("wait:")))


def _take(action: Action, name: str) -> None:
    match action:
        case Kill():
            _end()
        case Freeze():
            os.kill(os.getpid(), signal.SIGSTOP)
        case Fail():
            raise QueryFailedError(f"failpoint {name}", hint=f"unset {VARIABLE}")
        case Wait():
            while action.file.exists():
                threading.Event().wait(LOOK_S)
        case _:
            assert_never(action)


def _end() -> NoReturn:
    os._exit(KILLED)


_ASKED = os.environ.get(VARIABLE)
_armed: Failpoints | None = None
_arming = threading.Lock()


def reach(name: str) -> None:
    """Pass a place where a fault test may act. Raises ConfigError when the variable cannot be understood."""
    if _ASKED:
        _process().reach(name)


def _process() -> Failpoints:
    """Return this process's failpoints, parsed at its first visit: an error there is one of the run."""
    global _armed  # noqa: PLW0603  counts are of the process
    with _arming:
        if _armed is None:
            folder = os.environ.get(FOLDER_VARIABLE)
            points = parse_failpoints(_ASKED or "")
            _armed = Failpoints(points, Path(folder) if folder else None)
        return _armed
