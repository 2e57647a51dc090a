"""The input rows of a case: inline, or in CSV and JSON lines beside the test file."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.catalog.errors import ConfigError, Span, did_you_mean
from penstock.connector.changelog import RowKind
from penstock.connector.testing.values import MARKS, InputRow
from penstock.sql.testing.cases import InputTable, LocatedRow
from penstock.sql.testing.yaml_nodes import YamlNode

_KINDS = {kind.short: kind for kind in RowKind}


def read_input_tables(node: YamlNode, folder: Path) -> tuple[InputTable, ...]:
    """Read the rows of one step, by table. Files are relative to `folder`. Raises ConfigError."""
    if node.is_null:
        return ()
    return tuple(
        InputTable(name=name, rows=tuple(_rows(name, value, folder)), span=at.span)
        for name, at, value in node.items("what is given")
    )


def _rows(name: str, node: YamlNode, folder: Path) -> Iterator[LocatedRow]:
    if not node.is_mapping:
        for each in node.elements(f"the rows of {name}"):
            yield LocatedRow(row=_inline(each), span=each.span)
        return
    fields = node.fields(f"the table {name}", ("csv", "jsonl"))
    if len(fields) != 1:
        raise node.error(
            f"the table {name} needs one file", hint="csv: rows.csv, or jsonl: rows.jsonl"
        )
    ((kind, at),) = fields.items()
    path = folder / at.text(f"`{kind}`")
    if not path.is_file():
        raise at.error(f"there is no file {path}", hint="paths are relative to the test file")
    yield from _csv(path) if kind == "csv" else _jsonl(path)


def _inline(node: YamlNode) -> InputRow:
    for name, at, _ in node.items("a row"):
        if name.startswith("$") and name not in MARKS:
            raise at.error(
                f"a row has no mark `{name}`",
                hint=did_you_mean(name, MARKS) or f"known are: {', '.join(MARKS)}",
            )
    try:
        return _row(node.value())
    except ConfigError as error:
        error.span = error.span or node.span
        raise


def _csv(path: Path) -> Iterator[LocatedRow]:
    """Read a CSV file with a header; empty cells are NULL, marks are columns."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        for cells in reader:
            span = _line(path, reader.line_num, ",".join(map(str, cells.values())))
            if None in cells or None in cells.values():
                raise ConfigError(
                    f"the line has not as many cells as the header ({len(reader.fieldnames or ())})",
                    span=span,
                )
            filled = {k: v for k, v in cells.items() if not (k.startswith("$") and not v)}
            yield LocatedRow(row=_placed(filled, span, from_csv=True), span=span)


def _jsonl(path: Path) -> Iterator[LocatedRow]:
    """Read a file with a JSON object in each line."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        span = _line(path, number, line)
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise ConfigError(f"this is not JSON: {error.msg}", span=span) from error
        if not isinstance(value, dict):
            raise ConfigError("each line must be a JSON object", span=span)
        yield LocatedRow(row=_placed(value, span), span=span)


def _line(path: Path, number: int, text: str) -> Span:
    return Span(file=str(path), line=number, column=1, length=max(1, len(text)), line_text=text)


def _placed(value: Mapping[str, Any], span: Span, *, from_csv: bool = False) -> InputRow:
    unknown = [name for name in value if name.startswith("$") and name not in MARKS]
    if unknown:
        raise ConfigError(f"a row has no mark `{unknown[0]}`", span=span)
    try:
        return _row(value, from_csv=from_csv)
    except ConfigError as error:
        error.span = error.span or span
        raise


def _row(value: Mapping[str, Any], *, from_csv: bool = False) -> InputRow:
    """Sort marks from columns. Raises ConfigError."""
    marks = {name: each for name, each in value.items() if name in MARKS}
    kind = _KINDS.get(str(marks.get("$kind", "+I")))
    if kind is None:
        raise ConfigError(
            f"{marks['$kind']!r} is no kind of row", hint="one of " + ", ".join(_KINDS)
        )
    offset, split = marks.get("$offset"), marks.get("$split")
    if isinstance(offset, str) and offset.isdecimal():
        offset = int(offset)
    if offset is not None and (not isinstance(offset, int) or offset < 0):
        raise ConfigError(f"$offset {offset!r} is no number from 0 on")
    headers = marks.get("$headers") or {}
    if not isinstance(headers, Mapping):
        raise ConfigError("$headers must be a mapping")
    return InputRow(
        cells={name: each for name, each in value.items() if name not in MARKS},
        split=None if split is None else str(split),
        offset=offset,
        timestamp=None if marks.get("$timestamp") is None else str(marks["$timestamp"]),
        key=_bytes(marks.get("$key"), "$key"),
        kind=kind,
        headers=tuple((str(k), _bytes(v, "$headers")) for k, v in headers.items()),
        raw=_bytes(marks.get("$raw"), "$raw"),
        from_csv=from_csv,
    )


def _bytes(value: Any, what: str) -> bytes | None:
    """Return bytes: a text in UTF-8, YAML's `!!binary`, or {base64: text}. Raises ConfigError."""
    match value:
        case None | bytes():
            return value
        case str():
            return value.encode()
        case {"base64": str() as text} if len(value) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except ValueError as error:
                raise ConfigError(f"{what}: this is not base64") from error
    raise ConfigError(f"{what} must be a text", hint="or bytes, as {base64: AAE=}")
