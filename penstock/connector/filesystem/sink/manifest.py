"""The manifest of a writer's batch in a table's folder: one small JSON file per batch, of which the newest is
kept.

It is the commit point: before it exists a batch is only staged, and is staged again; afterwards its files, and
no others, are moved into place, as often as that takes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.catalog.definitions.leases import Owner
from penstock.catalog.errors import StateMismatchError
from penstock.connector.contract import MicroBatch
from penstock.connector.filesystem.table.location import is_hidden
from penstock.connector.spark.sink.last_batch import LastBatch

LEDGER_FOLDER = "_penstock"
"""Inside the table's folder; what begins with _ is no part of a table, for us, Spark, Flink and DuckDB alike."""

VERSION = 2
_WITHOUT_SIZES = 1
"""Manifests of older versions: no sizes, no owner, one staging folder for all attempts of a batch."""

SPARKS_NULL = "__HIVE_DEFAULT_PARTITION__"
_MANIFEST = re.compile(r"([0-9]{20})\.json")
# a manifest, its note that all is in place, the staging folder of an attempt (of an older version: of the batch)
_OF_BATCH = re.compile(r"([0-9]+)(?:\.json|\.done|-[0-9a-f]+)?")
# part-00000-<uuid>.c000.json, part-00000-<uuid>-c000.snappy.parquet
_ENDING = re.compile(r"[.-]c[0-9]+(\..*)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A file of a batch: from where (inside the staging folder) to where (inside the table's folder).

    `size` in bytes; None in manifests of older versions.
    """

    staged: str
    final: str
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of one batch, and the staging folder of the attempt that wrote them.

    `replaces` are files inside the table's folder that give way to them. `owner` is the process of an INSERT .. VALUES,
    whose manifest others finish when it is gone.
    """

    batch: LastBatch
    staging: str
    files: tuple[StagedFile, ...]
    replaces: tuple[str, ...] = ()
    owner: Owner | None = None

    @property
    def name(self) -> str:
        """The manifest's file name; names sort as batches do."""
        return f"{self.batch.batch_id:020d}.json"

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of partitions that get files, sorted."""
        return tuple(sorted({file.final.rpartition("/")[0] for file in self.files}))

    def encode(self) -> str:
        """Write it as JSON."""
        return json.dumps(
            {
                "version": VERSION,
                "batch": self.batch.batch_id,
                "digest": self.batch.digest,
                "staging": self.staging,
                "files": [[file.staged, file.final, file.size] for file in self.files],
                "replaces": list(self.replaces),
                "owner": None if self.owner is None else asdict(self.owner),
            }
        )

    @classmethod
    def decode(cls, text: str, *, path: str) -> Manifest:
        """Read it. Raises StateMismatchError for a file that is damaged or of a newer Penstock."""
        try:
            value = json.loads(text)
            if value["version"] == _WITHOUT_SIZES:
                value |= {
                    "staging": str(value["batch"]),
                    "files": [(*pair, None) for pair in value["files"]],
                    "owner": None,
                }
            elif value["version"] != VERSION:
                raise ValueError(value["version"])
            return cls(
                batch=LastBatch(batch_id=int(value["batch"]), digest=str(value["digest"])),
                staging=str(value["staging"]),
                files=tuple(_file(*entry) for entry in value["files"]),
                replaces=tuple(map(str, value.get("replaces", ()))),
                owner=None if value["owner"] is None else Owner(**value["owner"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StateMismatchError(
                f"{path} does not say which batch the folder holds: it is damaged, or of a newer Penstock",
                hint="restore it; or empty the folder and SET another 'pipeline.name', to start over",
            ) from error


def writer_name(batch: MicroBatch) -> str:
    """Name the folder of a query's manifests, and its files: the query's id, and which of its sinks."""
    if not batch.sink:
        return batch.query_id
    return f"{batch.query_id}-{hashlib.sha256(batch.sink.encode()).hexdigest()[:8]}"


def staging_name(batch_id: int, attempt: str) -> str:
    """Name the staging folder of an attempt (hex digits): what two attempts stage never meets."""
    return f"{batch_id}-{attempt}"


def done_name(batch_id: int) -> str:
    """Name the note that a batch's files are all in place: files that are missing from then on were
    removed by others.
    """
    return f"{batch_id:020d}.done"


def batch_of(name: str) -> int | None:
    """Return the batch that a name in a writer's folder belongs to; None for other names."""
    found = _OF_BATCH.fullmatch(name)
    return None if found is None else int(found[1])


def newest(names: Iterable[str]) -> str | None:
    """Find the newest manifest among names of files; None where there is none."""
    return max((name for name in names if _MANIFEST.fullmatch(name)), default=None)


def manifest_of(
    staged: Mapping[str, int],
    batch: LastBatch,
    *,
    writer: str,
    staging: str,
    default_partition: str,
) -> Manifest:
    """Name the files that Spark or tasks have staged: by writer, batch and number, so that no two batches collide.

    `staged` has the bytes of each.
    """
    files = []
    rows = sorted(path for path in staged if not is_hidden(path.rpartition("/")[2]))
    for index, path in enumerate(rows):
        folder, _, name = path.rpartition("/")
        ending = _ENDING.search(name)
        final = f"part-{writer}-{batch.batch_id}-{index:05d}{(ending and ending[1]) or ''}"
        folders = [_folder(each, default_partition) for each in folder.split("/") if each]
        target = "/".join([*folders, final])
        files.append(StagedFile(staged=path, final=target, size=staged[path]))
    return Manifest(batch=batch, staging=staging, files=tuple(files))


def _file(staged: Any, final: Any, size: Any) -> StagedFile:
    return StagedFile(
        staged=str(staged), final=str(final), size=None if size is None else int(size)
    )


def _folder(name: str, default_partition: str) -> str:
    """Return the folder of NULL, which is the empty text's too, its declared name."""
    column, _, value = name.partition("=")
    return f"{column}={default_partition}" if value == SPARKS_NULL else name
