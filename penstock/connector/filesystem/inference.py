"""Infer a filesystem table: lines from a sample of files, Parquet and ORC from a footer, CSV from its header."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from penstock.catalog.errors import DefinitionError, QueryFailedError, UnknownObjectError
from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.filesystem.table.location import FoundFile, TableFolder, explained, locate
from penstock.connector.inference.event_time import EventTime, propose_event_time
from penstock.connector.inference.inferred_table import PROPOSAL, InferredColumn, InferredTable
from penstock.connector.inference.records import infer_records
from penstock.connector.inference.sample import Sample, SampledSplit
from penstock.connector.inference.schema_types import logical_type
from penstock.connector.inference.value_types import STRING

_GLOB = re.compile(r"[*?\[]")

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

_KINDS = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".orc": "orc",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "raw",
    ".log": "raw",
}

MOST_FILES = 8

MOST_BYTES = 16 << 20
"""Read of one file at most, unpacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """The files of a location. `path` and `pattern` (a Java regular expression) are the options of a table of them.

    `kind` is the format that their names say, None where they say none or several.
    """

    path: str
    pattern: str | None
    folder: TableFolder
    files: tuple[FoundFile, ...]
    kind: str | None

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of folders such as `day=2026-01-31`, where all files are in such."""
        heads = {
            tuple(part.partition("=")[0] for part in each.name.split("/")[:-1] if "=" in part)
            for each in self.files
        }
        return next(iter(heads)) if len(heads) == 1 else ()

    def partition_texts(self, column: str) -> list[str]:
        """Return the values of such a folder, of all files."""
        pairs = (part.partition("=") for each in self.files for part in each.name.split("/")[:-1])
        return [value for key, _, value in pairs if key == column]

    def chosen(self) -> list[FoundFile]:
        """Return some files, spread evenly over their order by name, the last one included."""
        ordered = sorted(self.files, key=lambda each: each.name)
        step = max(1, -(-len(ordered) // MOST_FILES))
        return ordered[::-1][::step][::-1]


def find_files(path: str, project: Path) -> FoundFiles:
    """List what a path, or a folder and a pattern as in `data/*.json`, names; empty files left out.

    Raises OptionError, UnknownObjectError where there is nothing.
    """
    base, glob = path, None
    if _GLOB.search(path):
        parts = path.split("/")
        first = next(number for number, part in enumerate(parts) if _GLOB.search(part))
        base, glob = (
            "/".join(parts[:first]) or ("/" if path[0] == "/" else "."),
            "/".join(parts[first:]),
        )
    folder = TableFolder(locate(base, project, owner="discovery"))
    files = [each for each in folder.files() if each.size]
    if glob is not None:
        files = [each for each in files if fnmatch.fnmatchcase(each.name, glob)]
    if not files:
        raise UnknownObjectError(
            f"there is no file with anything in it at {path}", hint="check the path and the pattern"
        )
    kinds = {kind_of(each.name) for each in files}
    return FoundFiles(
        path=base,
        pattern=None if glob is None else f".*/{_java_pattern(glob)}",
        folder=folder,
        files=tuple(files),
        kind=next(iter(kinds)) if len(kinds) == 1 else None,
    )


def kind_of(name: str) -> str | None:
    """Return the format that a file's name says."""
    path = PurePosixPath(name)
    if path.suffix in _CODECS:
        path = path.with_suffix("")
    return _KINDS.get(path.suffix.lower())


def _java_pattern(glob: str) -> str:
    """Write a pattern of names as a Java regular expression; as in a shell's globstar, * takes slashes too."""
    parts = {"*": ".*", "?": "."}
    return "".join(
        parts.get(c)
        or (c if c.isalnum() or c in "/_[]" else f"[{c}]" if c not in "^\\" else f"\\{c}")
        for c in glob
    )


# --- lines ---


def sample_lines(found: FoundFiles, wanted: int) -> tuple[SampledSplit, ...]:
    """Read the first lines of some of the files, each file a split. Blocks on I/O."""
    chosen = found.chosen()
    share = max(1, -(-wanted // len(chosen)))
    return tuple(_first_lines(found.folder, each, share) for each in chosen)


def _first_lines(folder: TableFolder, file: FoundFile, wanted: int) -> SampledSplit:
    codec = _CODECS.get(PurePosixPath(file.name).suffix)
    with explained(file.path):
        stream: Any = (
            folder.open_file(file.path) if codec is None else folder.open_stream(file.path, codec)
        )
        with stream:
            try:
                data: bytes = stream.read(MOST_BYTES)
            except OSError as error:
                if error.errno is not None:
                    raise
                raise QueryFailedError(f"{file.path} cannot be unpacked: {error}") from error
    lines = data.split(b"\n")
    if len(data) == MOST_BYTES and len(lines) > 1:
        lines.pop()  # cut off
    numbered = [
        (number, line.removesuffix(b"\r")) for number, line in enumerate(lines, start=1) if line
    ]
    taken = numbered[:wanted]
    return SampledSplit(
        name=file.name,
        unit="line",
        positions=tuple(number for number, _ in taken),
        values=tuple(line for _, line in taken),
    )


# --- schemas ---


def file_schema(found: FoundFiles, kind: str) -> pa.Schema:
    """Read the schema in the footer of the last file, by name. Raises DefinitionError where there is none."""
    newest = found.chosen()[-1]
    with explained(newest.path), found.folder.open_file(newest.path) as file:
        try:
            if kind == "orc":
                from pyarrow import orc

                return _schema_of(orc.ORCFile(file))
            from pyarrow import parquet

            return parquet.read_schema(file)
        except pa.ArrowException as error:
            raise DefinitionError(
                f"{newest.path} is no {kind} file: {error}", hint="was it copied as a whole?"
            ) from error


def _schema_of(footer: Any) -> pa.Schema:
    return footer.schema


def csv_schema(found: FoundFiles, wanted: int) -> tuple[pa.Schema, Sequence[str]]:
    """Infer the columns of a file of delimited text by DuckDB; returns them, and the delimiter that it assumes.

    Raises DefinitionError where it finds none. Local files only.
    """
    import duckdb

    newest = found.chosen()[-1]
    try:
        with duckdb.connect() as connection:
            sniffed = connection.execute(
                "SELECT Delimiter, HasHeader FROM sniff_csv(?, sample_size = ?)",
                [newest.path, wanted],
            ).fetchall()
            rows = connection.sql(
                "SELECT * FROM read_csv(?, sample_size = ?) LIMIT 0", params=[newest.path, wanted]
            )
            schema: pa.Schema = rows.to_arrow_table().schema
    except duckdb.Error as error:
        raise DefinitionError(
            f"{newest.path} cannot be read as delimited text: {error}",
            hint="choose another --format",
        ) from error
    ((delimiter, header),) = sniffed
    remark = "a header line names the columns" if header else "no header line"
    return schema, (str(delimiter), remark)


_READ = ("json", "raw")

_WRITTEN_ONLY = ("csv", "orc", "parquet")


def infer_file_table(
    path: str, project: Path, *, name: str, asked: str | None, wanted: int
) -> InferredTable:
    """Infer a table of files. Raises UnknownObjectError where there are none, DefinitionError for unlike ones."""
    found = find_files(path, project)
    kind = asked or found.kind
    if kind is None:
        raise DefinitionError(
            f"the names of the files at {path} do not say one format",
            hint="choose with --format, or name some of them, as in 'data/*.json'",
        )
    if kind in _WRITTEN_ONLY:
        return _of_schema(found, kind, name=name, wanted=wanted)
    return _of_lines(found, name=name, asked=asked, wanted=wanted)


def _of_lines(found: FoundFiles, *, name: str, asked: str | None, wanted: int) -> InferredTable:
    splits = sample_lines(found, wanted)
    sample = Sample(origin=f"the files at {found.path}", splits=splits)
    value = infer_records(sample, asked)
    if value.format not in _READ:
        raise DefinitionError(
            f"{sample.origin} hold changes in the format '{value.format}', which 'filesystem' does not read",
            hint="take the envelopes as rows with --format json",
        )
    timed = (
        propose_event_time(value.columns, value.candidates, sample)
        if value.format == "json"
        else EventTime(columns=value.columns)
    )
    columns, keys = _with_partitions(timed.columns, found)
    return InferredTable(
        name=name,
        columns=columns,
        options=(*_options(found), *value.options, *value.bad_record_options),
        watermark=timed.watermark,
        watermark_remark=timed.watermark_remark,
        partition_keys=keys,
        remarks=(
            f"Inferred from {sample.origin}: {sample.size:,} lines of {len(splits):,} of {len(found.files):,} files.",
            PROPOSAL,
            *value.remarks,
            *timed.remarks,
        ),
    )


def _of_schema(found: FoundFiles, kind: str, *, name: str, wanted: int) -> InferredTable:
    more: Sequence[tuple[str, str]] = ()
    if kind == "csv":
        schema, (delimiter, remark) = csv_schema(found, wanted)
        more = () if delimiter == "," else (("csv.field-delimiter", delimiter),)
        origin = f"the columns that a file at {found.path} seems to have ({remark})"
    else:
        schema, origin = file_schema(found, kind), f"the footer of the last file at {found.path}"
    columns, keys = _with_partitions(tuple(map(_schema_column, schema)), found)
    return InferredTable(
        name=name,
        columns=columns,
        options=(*_options(found), ("format", kind), *more),
        partition_keys=keys,
        remarks=(
            f"Inferred from {origin}; {len(found.files):,} files.",
            PROPOSAL,
            f"Files of the format '{kind}' are written by 'filesystem', and not read yet.",
            "INSERT INTO adds files of these columns; rows to query are better kept with 'connector' = 'delta'.",
        ),
    )


def _schema_column(field: pa.Field) -> InferredColumn:
    kind = logical_type(field.type, nullable=field.nullable)
    remark = f"{field.type} in the file" + ("" if field.nullable else ", never null there")
    comment = (field.metadata or {}).get(b"comment")
    text = comment.decode("utf-8", "replace") if comment else None
    return InferredColumn(
        column=PhysicalColumn(name=field.name, type=kind, comment=text), remark=remark
    )


def _options(found: FoundFiles) -> tuple[tuple[str, str], ...]:
    options = [("connector", "filesystem"), ("path", found.path)]
    if found.pattern is not None:
        options.append(("source.path.regex-pattern", found.pattern))
    return tuple(options)


def _with_partitions(
    columns: tuple[InferredColumn, ...], found: FoundFiles
) -> tuple[tuple[InferredColumn, ...], tuple[str, ...]]:
    """Add the columns that the names of folders hold."""
    names = found.partition_columns
    inside = tuple(each for each in columns if each.column.name not in names)
    made = []
    for name in names:
        texts = found.partition_texts(name)
        kind: t.LogicalType = STRING
        if all(
            text.isdecimal() and len(text) < 10 and (text == "0" or text[0] != "0")
            for text in texts
        ):
            kind = t.IntType()
        column = PhysicalColumn(name=name, type=kind)
        made.append(
            InferredColumn(column=column, remark=f"of the folders' names, as {name}={texts[-1]}")
        )
    return (*inside, *made), names
