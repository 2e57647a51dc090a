"""Filesystem tables that tests make by hand, their files, and reading them as a task does."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Column, MetadataColumn, PhysicalColumn, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.contract import ReadRequest
from penstock.connector.filesystem.connector import FilesystemConnector
from penstock.connector.filesystem.source.metadata_client import FileMetadataClient
from penstock.connector.filesystem.source.source import FilesystemSource

COLUMNS = {"id": "BIGINT"}
MODIFIED_S = 1_700_000_000


def file_table(
    path: Path | str,
    options: Mapping[str, str | None] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    metadata: Mapping[str, tuple[str, str]] | None = None,
    partitions: Sequence[str] = (),
) -> Table:
    """A table of JSON lines below `path`, changed by `options` (None takes one away).

    `columns` are physical, by type; `metadata` maps a column to its metadata key and type.
    """
    plain = {"connector": "filesystem", "path": str(path), "format": "json"}
    given = {key: value for key, value in {**plain, **(options or {})}.items() if value is not None}
    physical: list[Column] = [
        PhysicalColumn(name=name, type=parse_type(text))
        for name, text in (COLUMNS if columns is None else columns).items()
    ]
    of_files = [
        MetadataColumn(name=name, type=parse_type(text), key=key, virtual=True)
        for name, (key, text) in (metadata or {}).items()
    ]
    return Table(
        identifier=Identifier(
            catalog="default_catalog", database="default_database", name="orders"
        ),
        schema=Schema(columns=(*physical, *of_files)),
        options=tuple(given.items()),
        partition_keys=tuple(partitions),
    )


def file_source(path: Path | str, *arguments: Any, **more: Any) -> FilesystemSource:
    """The source of such a table; its project is the root of the file system."""
    return FilesystemConnector(project=Path("/")).source(file_table(path, *arguments, **more))


def text_source(
    path: Path | str, options: Mapping[str, str | None] | None = None
) -> FilesystemSource:
    """The source of a table whose one column `line` is the whole line."""
    return file_source(path, {"format": "raw", **(options or {})}, columns={"line": "STRING"})


def write(path: Path, data: bytes | str, *, modified_s: int = MODIFIED_S) -> Path:
    """Write a file as it was at a time; one whose name ends in .gz is compressed."""
    content = data.encode() if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    os.utime(path, (modified_s, modified_s))
    return path


@dataclass
class Rows:
    """What a reader delivered: rows by split id, in order, and the last position of each split."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    fetches: int = 0

    def column(self, name: str) -> list[Any]:
        """One column of all rows, in the order of splits."""
        return [row[name] for rows in self.rows.values() for row in rows]


def planning(source: FilesystemSource, *columns: str) -> FileMetadataClient:
    """A planner; `columns` are those of peeks."""
    return source.open_planner(ReadRequest(columns=columns))


def planned(planner: FileMetadataClient) -> dict[str, tuple[int, int]]:
    """First planning: each file from its beginning to its end, in reading order."""
    split_ids = list(planner.list_splits().owners)
    starts = planner.start_positions(split_ids, first_listing=True)
    stops = planner.stop_positions(split_ids)
    return {i: (starts[i], stops[i]) for i in split_ids}


def read(
    source: FilesystemSource,
    columns: Sequence[str],
    ranges: Sequence[tuple[str, int, int]] | None = None,
) -> Rows:
    """Plan unless ranges are given, and read them one after the other with one reader."""
    planner = planning(source)
    if ranges is None:
        ranges = [(split_id, *positions) for split_id, positions in planned(planner).items()]
    result = Rows()
    reader = source.open_reader(ReadRequest(columns=tuple(columns)))
    try:
        for split_id, start, stop in ranges:
            reader.add_splits([planner.split(split_id, start, stop)])
            finished: frozenset[str] = frozenset()
            while not finished:
                records = reader.fetch()
                finished = records.finished
                result.fetches += 1
                result.skipped += records.skipped
                result.positions |= records.positions
                for found_id, batch in records.batches:
                    rows = batch.to_pylist() if batch.num_columns else [{}] * batch.num_rows
                    result.rows.setdefault(found_id, []).extend(rows)
    finally:
        reader.close()
    return result
