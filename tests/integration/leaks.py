"""Searches everything that a run left for a value, in the forms in which values usually leak."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

__all__ = ["command_lines", "leaks", "spellings"]


def spellings(value: str) -> dict[str, bytes]:
    """The value as it stands in texts, URLs, JSON, SQL, dumps, and inside longer base64."""
    raw = value.encode()
    # what base64 gives for a value depends on what stands before it, and its ends on what stands around it
    inside = {
        f"base64 at {shift}": base64.b64encode(b"\0" * shift + raw)[4 if shift else 0 : -4]
        for shift in range(3)
    }
    return {
        "raw": raw,
        "utf-16-le": value.encode("utf-16-le"),
        "utf-16-be": value.encode("utf-16-be"),
        "hex": raw.hex().encode(),
        "url": quote(value, safe="").encode(),
        "url with slashes": quote(value).encode(),
        "form": quote_plus(value).encode(),
        "json": json.dumps(value)[1:-1].encode(),
        "sql": value.replace("'", "''").encode(),
        "reversed": raw[::-1],
        **inside,
    }


def leaks(folder: Path, value: str) -> list[str]:
    """Name the files below `folder` that hold the value, with the form it has there; names of files count too."""
    return [
        f"{file.relative_to(folder)}: {form}"
        for file, content in _contents(folder)
        for form, spelled in spellings(value).items()
        if spelled in content or spelled in str(file).encode()
    ]


def _contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for file in folder.rglob("*"):
        try:
            if not file.is_file():
                continue
            content = file.read_bytes()
        except OSError:
            continue  # a file of a run that goes on
        yield file, gzip.decompress(content) if file.suffix == ".gz" else content


def command_lines(pids: list[int]) -> bytes:
    """What the system shows everybody of processes: how they were called."""
    found = b""
    for pid in pids:
        try:
            found += Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
    return found
