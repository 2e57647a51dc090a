"""The Delta log read without an engine: the newest `metaData` action, its types as ours, `protocol` and `txn` actions.

The rows of a small table, and the first rows of any, are read as Parquet from the files that its log has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from penstock.catalog.errors import StateMismatchError
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.delta.files.deletion_vector import (
    DamagedVectorError,
    VectorFolder,
    kept_rows,
)
from penstock.connector.delta.files.live_files import LOG
from penstock.connector.delta.files.live_rows import (
    MOST_BYTES,
    READ_FAILURES,
    LiveRows,
    NotReadableHereError,
    in_utc,
    readable_here,
)
from penstock.connector.spark_catalog.json_types import physical_columns
from penstock.connector.storage import Folder

_WITHOUT_FILES = frozenset({"metaData", "protocol", "txn"})
_NO_SCHEMA = "no commit and no checkpoint has its schema"
_COMMIT = re.compile(r"(\d{20})\.json")
# one file, parts of several, or of version 2 with a unique name
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.[0-9A-Za-z.-]+)?\.(?:parquet|json)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTable:
    """What the log says of a table. `configuration` are its properties."""

    columns: tuple[PhysicalColumn, ...]
    partition_columns: tuple[str, ...]
    description: str | None
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """A table's newest version, and the names of its columns there."""

    version: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStanding:
    """Which table it is (Delta's id), its newest version, and the last version of each application (`txn`)."""

    id: str
    version: int
    transactions: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogForm:
    """What a writer keeps to: the newest `metaData` and `protocol`, as the fields of these actions."""

    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]


def is_delta_table(folder: Folder) -> bool:
    """Return whether a folder is a Delta table: it has a log with a commit or a checkpoint."""
    return bool(_logs(folder))


def read_logged(folder: Folder) -> LoggedTable | None:
    """Read the newest metadata of a table; None where there is no Delta table.

    Raises StateMismatchError for a log that cannot be read, UnsupportedError for a type that we have not.
    """
    with _readable(folder):
        names = _logs(folder)
        return _logged(_newest(folder, names), folder) if names else None


def read_head(folder: Folder) -> LogHead | None:
    """Read where a table stands, whatever types it has; None where there is no Delta table.

    Raises StateMismatchError for a log that cannot be read.
    """
    with _readable(folder):
        names = _logs(folder)
        if not names:
            return None
        fields = json.loads(_newest(folder, names)["schemaString"])["fields"]
        return LogHead(
            version=max(int(name.partition(".")[0]) for name in names),
            columns=tuple(field["name"] for field in fields),
        )


def read_standing(folder: Folder) -> LogStanding | None:
    """Read what writers go by; None where there is no Delta table.

    Raises StateMismatchError for a log that cannot be read.
    """
    with _readable(folder):
        names = _logs(folder)
        if not names:
            return None
        table_id, transactions = None, {}
        for action in _actions(folder.below(LOG), names):
            if (meta := action.get("metaData")) is not None:
                table_id = meta["id"]
            elif (txn := action.get("txn")) is not None:
                transactions[txn["appId"]] = int(txn["version"])
        if table_id is None:
            raise _unreadable(folder, _NO_SCHEMA)
        return LogStanding(
            id=table_id,
            version=max(int(name.partition(".")[0]) for name in names),
            transactions=transactions,
        )


def read_form(folder: Folder) -> LogForm | None:
    """Read what a writer keeps to; None where there is no Delta table.

    Raises StateMismatchError for a log that cannot be read.
    """
    with _readable(folder):
        names = _logs(folder)
        if not names:
            return None
        found: dict[str, Mapping[str, Any]] = {}
        for action in _actions(folder.below(LOG), names):
            found |= {key: value for key, value in action.items() if value is not None}
        if not {"metaData", "protocol"} <= found.keys():
            raise _unreadable(folder, "no commit and no checkpoint has its schema and protocol")
        metadata = {**found["metaData"], "configuration": _properties(found["metaData"])}
        return LogForm(metadata=metadata, protocol=found["protocol"])


@contextmanager
def _readable(folder: Folder) -> Iterator[None]:
    try:
        yield
    except READ_FAILURES as error:
        raise _unreadable(folder, f"{type(error).__name__}: {error}") from error


def _logs(folder: Folder) -> Sequence[str]:
    """List the commits and checkpoints of a table; none where there is none."""
    return [name for name in folder.below(LOG).names() if _is_log(name)]


def _is_log(name: str) -> bool:
    return bool(_COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name))


def _logged(meta: Mapping[str, Any], folder: Folder) -> LoggedTable:
    schema = json.loads(meta["schemaString"])
    return LoggedTable(
        columns=physical_columns(schema, owner=f"the Delta table {folder.shown}"),
        partition_columns=tuple(meta.get("partitionColumns") or ()),
        description=meta.get("description"),
        configuration=_properties(meta),
    )


def _properties(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of a table; a map of a checkpoint comes as pairs."""
    return dict(meta.get("configuration") or {})


def _newest(folder: Folder, names: Sequence[str]) -> Mapping[str, Any]:
    """Go back from the newest commit to the last checkpoint, which has what stands before it.

    Raises StateMismatchError where none has a schema.
    """
    log = folder.below(LOG)
    commits = {int(found[1]): name for name in names if (found := _COMMIT.fullmatch(name))}
    checkpoints: dict[int, list[str]] = {}
    for name in names:
        if found := _CHECKPOINT.fullmatch(name):
            checkpoints.setdefault(int(found[1]), []).append(name)
    last = max(checkpoints, default=-1)
    for version in sorted(commits, reverse=True):
        if version <= last:
            break
        if (meta := _of_lines(log, commits[version])) is not None:
            return meta
    for name in checkpoints.get(last, ()):
        found_meta = _of_checkpoint(log, name)
        if found_meta is not None:
            return found_meta
    raise _unreadable(folder, _NO_SCHEMA)


def _actions(log: Folder, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Return the actions of the last checkpoint that concern no file, then those of the commits behind it, in order."""
    found = [(int(name.partition(".")[0]), name) for name in names if _CHECKPOINT.fullmatch(name)]
    last = max((version for version, _ in found), default=-1)
    for version, name in found:
        if version == last and name.endswith(".json"):
            yield from _actions_of_lines(log, name)
        elif version == last:
            yield from _actions_of_checkpoint(log, name)
    for name in sorted(name for name in names if _COMMIT.fullmatch(name)):
        if int(name.partition(".")[0]) > last:
            yield from _actions_of_lines(log, name)


def _actions_of_lines(log: Folder, name: str) -> Iterator[Mapping[str, Any]]:
    for line in (log.text(name) or "").split("\n"):
        if any(f'"{name}"' in line for name in _WITHOUT_FILES):
            yield json.loads(line)


def _actions_of_checkpoint(log: Folder, name: str) -> Iterator[Mapping[str, Any]]:
    from pyarrow import parquet

    with parquet.ParquetFile(log.system.open_input_file(f"{log.path}/{name}")) as file:
        there = {field.name for field in file.schema_arrow}
        for column in sorted(there & _WITHOUT_FILES):
            for value in file.read(columns=[column]).column(column).drop_null().to_pylist():
                yield {column: value}


def _of_lines(log: Folder, name: str) -> Mapping[str, Any] | None:
    for line in (log.text(name) or "").split("\n"):
        if '"metaData"' in line and (meta := json.loads(line).get("metaData")) is not None:
            found: Mapping[str, Any] = meta
            return found
    return None


def _of_checkpoint(log: Folder, name: str) -> Mapping[str, Any] | None:
    if name.endswith(".json"):
        return _of_lines(log, name)
    from pyarrow import parquet

    file = f"{log.path}/{name}"
    table = parquet.read_table(file, columns=["metaData"], filesystem=log.system)
    rows = table.column("metaData").drop_null()
    found: Mapping[str, Any] | None = rows[0].as_py() if len(rows) else None
    return found


def _unreadable(folder: Folder, why: str) -> StateMismatchError:
    return StateMismatchError(
        f"the log of the Delta table {folder.shown} cannot be read: {why}",
        hint="see whether Spark reads the table; a log that misses files has to be restored",
    )


_WHOLE_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_OTHER_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*")
_READER_VERSION = 1


def live_rows(folder: Folder) -> LiveRows | None:
    """Return the rows as of the newest commit; None where there is no Delta table.

    Raises NotReadableHereError, also for a log that misses files, and for a table of more than `MOST_BYTES`.
    """
    if not (names := _logs(folder)):
        return None
    with readable_here():
        live = _live(folder.below(LOG), names, _check)
        if sum(int(add["size"]) for add in live.values()) > MOST_BYTES:
            raise NotReadableHereError(f"more than {MOST_BYTES:,} bytes")
    return LiveRows(folder=folder, files=tuple(live))


def newest_log(folder: Folder) -> tuple[str, int] | None:
    """Return the name of the newest file of a log and when it was written (ns); None where there is no Delta table."""
    if not (names := _logs(folder)):
        return None
    newest = max(names)
    with readable_here():
        return newest, folder.system.get_file_info(f"{folder.path}/{LOG}/{newest}").mtime_ns or 0


def _live(
    log: Folder, names: Sequence[str], check: Callable[[dict[str, Any]], None]
) -> dict[str, Mapping[str, Any]]:
    """Replay the log from its last checkpoint; returns the live files by path, each as the action that added it.

    `check` sees each action. Raises NotReadableHereError.
    """
    commits = {int(found[1]): name for name in names if (found := _COMMIT.fullmatch(name))}
    whole = {int(found[1]): name for name in names if (found := _WHOLE_CHECKPOINT.fullmatch(name))}
    others = [int(found[1]) for name in names if (found := _OTHER_CHECKPOINT.fullmatch(name))]
    start = max(whole, default=-1)
    if max(others, default=-1) > start:
        raise NotReadableHereError("a checkpoint of another form")
    live: dict[str, Mapping[str, Any]] = {}
    actions = list(_actions_of_parquet(log, whole[start])) if start >= 0 else []
    newest = max(commits, default=start)
    for version in range(start + 1, newest + 1):
        if version not in commits:
            raise NotReadableHereError(f"commit {version} is missing")
        lines = (log.text(commits[version]) or "").split("\n")
        # a file that gets a deletion vector is removed and added by one commit, in any order
        actions += sorted((json.loads(line) for line in lines if line.strip()), key=_is_add)
    for action in actions:
        check(action)
        if (add := action.get("add")) is not None:
            live[add["path"]] = add
        elif (remove := action.get("remove")) is not None:
            live.pop(remove["path"], None)
    return live


def _is_add(action: dict[str, Any]) -> bool:
    return action.get("add") is not None


def _check(action: dict[str, Any]) -> None:
    protocol, meta, add = action.get("protocol"), action.get("metaData"), action.get("add")
    if protocol is not None and protocol["minReaderVersion"] != _READER_VERSION:
        raise NotReadableHereError("a newer protocol")
    if meta is not None and meta.get("partitionColumns"):
        raise NotReadableHereError("partitions")
    if add is not None and add.get("deletionVector"):
        raise NotReadableHereError("deletion vectors")


def _actions_of_parquet(log: Folder, name: str) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet

    file = parquet.ParquetFile(log.system.open_input_file(f"{log.path}/{name}"))
    there = {field.name for field in file.schema_arrow}
    wanted = [column for column in ("protocol", "metaData", "add", "remove") if column in there]
    for row in file.read(columns=wanted).to_pylist():
        yield {key: value for key, value in row.items() if value is not None}


_READABLE = frozenset({"deletionVectors", "timestampNtz"})
"""What a reader of version 3 has to know, of what `read_first_rows` reads."""
MOST_FILES = 50
"""Files that are opened for the first rows: all rows of those may have been replaced."""


def read_first_rows(folder: Folder, columns: pa.Schema, limit: int) -> pa.Table:
    """Read up to `limit` rows of the first files that the log has, without replaced ones; none where there is no log.

    A column that a file lacks is NULL in its rows. Raises NotReadableHereError.
    """
    wanted = pa.schema([field.with_nullable(True) for field in columns])
    names = folder.below(LOG).names()
    if not names:
        return wanted.empty_table()
    found, rows = [wanted.empty_table()], 0
    try:
        for add in list(_live(folder.below(LOG), names, _check_first).values())[:MOST_FILES]:
            if rows >= limit:
                break
            found.append(_first_of_file(folder, add, wanted, limit - rows))
            rows += found[-1].num_rows
        return pa.concat_tables(found)
    except (DamagedVectorError, *READ_FAILURES) as error:
        raise NotReadableHereError(f"{type(error).__name__}: {error}") from error


def _first_of_file(
    folder: Folder, add: Mapping[str, Any], wanted: pa.Schema, limit: int
) -> pa.Table:
    """Read the first rows of a file, or the first of those that a deletion vector leaves."""
    from pyarrow import parquet

    stream = folder.system.open_input_file(f"{folder.path}/{unquote(add['path'])}")
    with parquet.ParquetFile(stream) as file:
        there = {field.name for field in file.schema_arrow}
        columns = [name for name in wanted.names if name in there]
        vector = add.get("deletionVector")
        if vector is None:
            first = next(file.iter_batches(batch_size=limit, columns=columns), None)
            read = wanted.empty_table() if first is None else pa.table(first)
        else:
            deleted = VectorFolder(folder=Path(folder.path)).read(vector)
            kept = kept_rows(file.metadata.num_rows, deleted)[:limit]
            read = file.read(columns=columns).take(pa.array(kept))
    read = in_utc(read)
    values = [
        read.column(field.name).cast(field.type, safe=False)
        if field.name in read.column_names
        else pa.nulls(read.num_rows, field.type)
        for field in wanted
    ]
    return pa.table(values, schema=wanted)


def _check_first(action: dict[str, Any]) -> None:
    protocol, meta = action.get("protocol"), action.get("metaData")
    if protocol is not None:
        features = set(protocol.get("readerFeatures") or ())
        if protocol["minReaderVersion"] not in {1, 3} or features - _READABLE:
            raise NotReadableHereError("it has a newer protocol")
    if meta is not None and meta.get("partitionColumns"):
        raise NotReadableHereError("it has partitions")
