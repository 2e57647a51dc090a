"""The files of results of `benchmarks.nexmark`: figures by query and engine, which `--resume` goes on with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.machine import machine
from benchmarks.nexmark.answers import Answer
from benchmarks.nexmark.processes import ENGINES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Key = tuple[str, str]
"""A query and an engine."""

LONGEST_REASON = 200
"""Characters of the page."""


def results_text(found: Mapping[Key, DataclassInstance], arguments: Mapping[str, str]) -> str:
    """Write all figures as JSON, with the arguments that they depend on."""
    figures = [
        {"query": query, "engine": name, **asdict(one)} for (query, name), one in found.items()
    ]
    return (
        json.dumps({"machine": machine(), "arguments": arguments, "found": figures}, indent=2)
        + "\n"
    )


def stored_results(
    path: Path, arguments: Mapping[str, str]
) -> Iterator[tuple[Key, Answer | None, dict[str, Any]]]:
    """Read what `results_text` wrote: the answer of each query and engine, and the other figures; none without a file.

    Raises SystemExit where it is of other arguments.
    """
    if not path.exists():
        return
    document = json.loads(path.read_text(encoding="utf-8"))
    if document["arguments"] != arguments:
        raise SystemExit(f"error: --resume: {path} is of other arguments")
    for one in document["found"]:
        key, answer = (one.pop("query"), one.pop("engine")), one.pop("answer")
        yield key, None if answer is None else Answer(**answer), one


def failed_lines(lost: Mapping[Key, str]) -> list[str]:
    """Name the queries that an engine did not run, and why: the first line of each reason."""
    return [
        f"- {query}, {ENGINES[name]}: {reason.splitlines()[0][:LONGEST_REASON]}"
        for (query, name), reason in lost.items()
        if reason
    ]
