"""CPU time and memory of a process and of all that it started, from Linux's /proc; time of ended children, too.

Taken between two turns of a benchmark, while nothing starts or ends: a process that ends meanwhile may count twice.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
"""Unit of the times in /proc."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTime:
    """User and system time in seconds: of Java processes, and of all others."""

    java_s: float = 0.0
    other_s: float = 0.0

    @property
    def total_s(self) -> float:
        """The sum."""
        return self.java_s + self.other_s

    def __sub__(self, before: CpuTime) -> CpuTime:
        """What was spent since."""
        return CpuTime(java_s=self.java_s - before.java_s, other_s=self.other_s - before.other_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    parent: int
    is_java: bool
    own_ticks: int
    ended_ticks: int
    """Of children that ended and were waited for, and of theirs."""


def spent(pid: int) -> CpuTime:
    """Return what a process and its descendants have spent so far."""
    processes = _processes()
    java, other = 0, 0
    for one in _tree(pid, processes):
        process = processes[one]
        if process.is_java:
            java += process.own_ticks
        else:
            other += process.own_ticks
        other += process.ended_ticks
    return CpuTime(java_s=java / TICKS_A_SECOND, other_s=other / TICKS_A_SECOND)


def spent_by_process(pid: int) -> dict[int, float]:
    """Return what a process and its descendants have spent themselves so far, in seconds, by their ids.

    For a time in which some of them end, whose sums fall: what is compared are those that are there at its end.
    """
    processes = _processes()
    return {one: processes[one].own_ticks / TICKS_A_SECOND for one in _tree(pid, processes)}


def runs_java(pid: int) -> bool:
    """Whether a Java process is among a process and its descendants."""
    processes = _processes()
    return any(processes[one].is_java for one in _tree(pid, processes))


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and its descendants; what they share counts in each."""
    pages = 0
    for one in _tree(pid, _processes()):
        with suppress(OSError):  # it ended
            text = Path(f"/proc/{one}/statm").read_text(encoding="utf-8")
            pages += int(text.split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _tree(pid: int, processes: dict[int, _Process]) -> list[int]:
    found = [pid] if pid in processes else []
    for one in found:  # grows meanwhile
        found += [child for child, process in processes.items() if process.parent == one]
    return found


def _processes() -> dict[int, _Process]:
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # it ended
            found[int(folder.name)] = _parse(text)
    return found


def _parse(stat: str) -> _Process:
    # pid (name) state ppid ...: a name may have spaces and parentheses in it (proc_pid_stat(5))
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    user, system, ended_user, ended_system = (int(field) for field in fields[11:15])
    return _Process(
        parent=int(fields[1]),
        is_java=name == "java",
        own_ticks=user + system,
        ended_ticks=ended_user + ended_system,
    )
