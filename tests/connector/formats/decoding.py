"""How tests of formats decode: a table in Flink's spelling of types, values in, rows out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.options.option import resolve
from penstock.connector.changelog import RowKind
from penstock.connector.formats import Decoder, find_format

__all__ = ["Result", "changes", "decode", "make_decoder", "where"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Rows as dicts; `kept` written out."""

    rows: list[dict[str, Any]]
    kept: list[int]
    skipped: int


def where(index: int) -> str:
    """Name a record."""
    return f"topic t, partition 0, offset {100 + index}"


def make_decoder(
    columns: Mapping[str, str],
    options: Mapping[str, str] | None = None,
    name: str = "json",
    metadata: Sequence[str] = (),
) -> Decoder:
    """A decoder of `columns`, name to type, and of the format's `metadata`."""
    chosen = find_format(name)
    fields = [(column, parse_type(text)) for column, text in columns.items()]
    resolved = resolve(options or {}, chosen.options(), owner="table t")
    return chosen.decoder(fields, resolved, metadata=metadata)


def decode(
    columns: Mapping[str, str],
    values: Sequence[bytes | str | None],
    options: Mapping[str, str] | None = None,
    name: str = "json",
) -> Result:
    """Decode one batch."""
    raw = [value.encode() if isinstance(value, str) else value for value in values]
    decoded = make_decoder(columns, options, name).decode(raw, where)
    decoded.batch.validate(full=True)
    kept = range(len(values)) if decoded.kept is None else decoded.kept.tolist()
    return Result(rows=decoded.batch.to_pylist(), kept=list(kept), skipped=decoded.skipped)


def changes(
    name: str,
    columns: Mapping[str, str],
    records: Sequence[object],
    options: Mapping[str, str] | None = None,
    metadata: Sequence[str] = (),
) -> list[tuple[Any, ...]]:
    """Decode records, None or anything that JSON has: the kind of each row, and its values."""
    raw = [None if record is None else json.dumps(record).encode() for record in records]
    decoded = make_decoder(columns, options, name, metadata).decode(raw, where)
    decoded.batch.validate(full=True)
    assert decoded.kinds is not None, "a format of changes tells their kinds"
    rows = [tuple(row.values()) for row in decoded.batch.to_pylist()]
    return [
        (RowKind(kind).short, *row) for kind, row in zip(decoded.kinds.tolist(), rows, strict=True)
    ]
