"""The rows of a small Delta table without an engine: the files that its log has, read as Parquet.

For tables of Penstock's own, as those of dead letters. Features that such tables do not have (deletion vectors, mapped
columns, checkpoints of version 2 with sidecars, partitions) are not read here: the caller asks Spark then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from penstock.connector.storage import Folder

__all__ = ["NotReadableHereError", "read_rows"]

LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_WHOLE_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_OTHER_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*")
_READER_VERSION = 1
MOST_ROWS = 200_000
"""Rows that are held in memory; a table of more is Spark's."""


class NotReadableHereError(Exception):
    """The table has what only an engine reads."""


def read_rows(folder: Folder, columns: Sequence[str]) -> pa.Table | None:
    """Read columns of all rows as of the newest commit; None where there is no Delta table.

    Raises NotReadableHereError, also for a log that misses files.
    """
    from pyarrow import parquet

    names = folder.below(LOG).names()
    if not any(_COMMIT.fullmatch(name) or _WHOLE_CHECKPOINT.fullmatch(name) for name in names):
        return None
    try:
        files = _live(folder.below(LOG), names)
        tables, rows = [], 0
        for path in files:
            stream = folder.system.open_input_file(f"{folder.path}/{unquote(path)}")
            with parquet.ParquetFile(stream) as file:
                rows += file.metadata.num_rows
                if rows > MOST_ROWS:
                    raise NotReadableHereError(f"more than {MOST_ROWS:,} rows")
                tables.append(_in_utc(file.read(columns=list(columns))))
        if not tables:
            return pa.table({name: pa.nulls(0) for name in columns})
        found = pa.concat_tables(tables, promote_options="permissive")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise NotReadableHereError(f"{type(error).__name__}: {error}") from error
    if set(found.column_names) != set(columns):
        raise NotReadableHereError("a file lacks columns")
    return found.select(list(columns))


def _in_utc(table: pa.Table) -> pa.Table:
    """Make instants of the times that Spark writes without a zone (INT96)."""
    instant = pa.timestamp("us", "UTC")
    fields = [f.with_type(instant) if pa.types.is_timestamp(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields), safe=False)


def _live(log: Folder, names: Sequence[str]) -> list[str]:
    """Replay the log from its last checkpoint; returns the paths of the live files."""
    commits = {int(found[1]): name for name in names if (found := _COMMIT.fullmatch(name))}
    whole = {int(found[1]): name for name in names if (found := _WHOLE_CHECKPOINT.fullmatch(name))}
    others = [int(found[1]) for name in names if (found := _OTHER_CHECKPOINT.fullmatch(name))]
    start = max(whole, default=-1)
    if max(others, default=-1) > start:
        raise NotReadableHereError("a checkpoint of another form")
    live: dict[str, None] = {}
    actions = list(_of_checkpoint(log, whole[start])) if start >= 0 else []
    newest = max(commits, default=start)
    for version in range(start + 1, newest + 1):
        if version not in commits:
            raise NotReadableHereError(f"commit {version} is missing")
        lines = (log.text(commits[version]) or "").split("\n")
        actions += [json.loads(line) for line in lines if line.strip()]
    for action in actions:
        _check(action)
        if (add := action.get("add")) is not None:
            live[add["path"]] = None
        elif (remove := action.get("remove")) is not None:
            live.pop(remove["path"], None)
    return list(live)


def _check(action: dict[str, Any]) -> None:
    protocol, meta, add = action.get("protocol"), action.get("metaData"), action.get("add")
    if protocol is not None and protocol["minReaderVersion"] != _READER_VERSION:
        raise NotReadableHereError("a newer protocol")
    if meta is not None and meta.get("partitionColumns"):
        raise NotReadableHereError("partitions")
    if add is not None and add.get("deletionVector"):
        raise NotReadableHereError("deletion vectors")


def _of_checkpoint(log: Folder, name: str) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet

    file = parquet.ParquetFile(log.system.open_input_file(f"{log.path}/{name}"))
    there = {field.name for field in file.schema_arrow}
    wanted = [column for column in ("protocol", "metaData", "add", "remove") if column in there]
    for row in file.read(columns=wanted).to_pylist():
        yield {key: value for key, value in row.items() if value is not None}
