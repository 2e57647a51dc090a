"""Several processes that do things to one catalog at once: forked from a server that has the catalog loaded already."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "tests.catalog.workers",
        # each process would import these by itself, which takes longer than its work
        "penstock.catalog.migrations.upgrade",
        "sqlalchemy.dialects.postgresql.psycopg",
        "psycopg",
    ]
)

TIMEOUT_S = 60.0
"""For what takes seconds on a machine that is busy."""


def together(work: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call `work` with each of `arguments` in a process of its own, all at once; gives what each returned."""
    start = PROCESSES.Event()
    started = [begin(_wait_and_work, start, work, *given) for given in arguments]
    for _, pipe in started:
        assert pipe.poll(TIMEOUT_S)
        assert pipe.recv() == "ready"
    start.set()
    results = [told(pipe) for _, pipe in started]
    for process, _ in started:
        process.join(TIMEOUT_S)
    return results


def begin(work: Callable[..., None], *arguments: Any) -> tuple[BaseProcess, Connection]:
    """Start a process that gets one end of a pipe, and `arguments`."""
    ours, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=work, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def told(pipe: Connection) -> Any:
    """What a process says next; its error, as one of ours."""
    assert pipe.poll(TIMEOUT_S), "the process says nothing"
    answer = pipe.recv()
    assert not isinstance(answer, BaseException), answer
    return answer


def _wait_and_work(pipe: Connection, start: Any, work: Callable[..., Any], *arguments: Any) -> None:
    pipe.send("ready")
    start.wait(TIMEOUT_S)
    try:
        pipe.send(work(*arguments))
    except Exception as error:  # noqa: BLE001
        pipe.send(AssertionError(repr(error)))
