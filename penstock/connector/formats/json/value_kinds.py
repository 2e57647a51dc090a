"""Which kinds of JSON values a batch of lines holds where: DuckDB looks, nothing is converted.

Asked only about lines that the parser refused, to find the ones to take out; and about maps, which it cannot do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.arrow.duckdb_engine import query
from penstock.connector.formats.json.lines import Lines, Mask

__all__ = ["INTEGER", "NUMBER", "is_json", "kinds_at", "map_entries"]

INTEGER = frozenset({"UBIGINT", "BIGINT"})
NUMBER = INTEGER | {"DOUBLE"}
"""DuckDB's names (json_type); the others are VARCHAR, BOOLEAN, OBJECT, ARRAY and NULL."""


def is_json(lines: Lines) -> Mask:
    """Return which lines are one JSON value each, by DuckDB, which takes NaN and stray commas too."""
    valid = query("SELECT json_valid(line) AS valid FROM records", _table(lines)).column("valid")
    return np.asarray(valid.combine_chunks().fill_null(False))


def kinds_at(lines: Lines, paths: Sequence[tuple[str, ...]]) -> tuple[Mask, list[pa.StringArray]]:
    """Return which lines are valid JSON (by DuckDB), and the kind at each path, null where there is nothing.

    A line that is not valid has null everywhere.
    """
    pointers = ", ".join(_literal(_pointer(path)) for path in paths)
    sql = f"SELECT json_type(TRY_CAST(line AS JSON), ['', {pointers}]) AS kinds FROM records"  # noqa: S608  literals are quoted
    kinds = query(sql, _table(lines)).column("kinds").combine_chunks()
    valid = np.asarray(kinds.is_valid())
    flat = kinds.flatten()
    per_line = len(paths) + 1
    # where each line's kinds begin in `flat`; lines without any point nowhere
    begin = pa.array(np.where(valid, (np.cumsum(valid) - 1) * per_line, 0), mask=~valid)
    return valid, [flat.take(pc.add(begin, index + 1)) for index in range(len(paths))]


def map_entries(lines: Lines, path: tuple[str, ...]) -> tuple[pa.ListArray, pa.ListArray]:
    """Return the keys, and the values as JSON texts, of the object at `path` of each line.

    DuckDB rewrites numbers: equal as doubles, not in their digits.
    """
    pointer, wildcard = _literal(_pointer(path)), _literal(_wildcard(path))
    sql = (
        f"SELECT json_keys(line, {pointer}) AS keys, "  # noqa: S608  as above
        f"json_extract(line, {wildcard})::VARCHAR[] AS vals FROM records"
    )
    found = query(sql, _table(lines))
    return found.column("keys").combine_chunks(), found.column("vals").combine_chunks()


def _table(lines: Lines) -> pa.Table:
    offsets, data = lines.buffers()[1:]
    texts = pa.StringArray.from_buffers(len(lines), offsets, data, offset=lines.offset)
    return pa.table({"line": texts})


def _pointer(path: tuple[str, ...]) -> str:
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in path)


def _wildcard(path: tuple[str, ...]) -> str:
    assert not any('"' in name or "\\" in name for name in path), "checked by can_extract"
    return "$" + "".join(f'."{name}"' for name in path) + ".*"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
