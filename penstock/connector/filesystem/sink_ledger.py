"""What a writer has put, or is about to put, into a table's folder: one small JSON file per batch, the newest kept.

It is the commit point: until it is there a batch is only staged, and is staged anew; from then on its files, and no
others, are moved into place, however often that takes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.catalog.errors import StateMismatchError
from penstock.connector.filesystem.location import is_hidden
from penstock.connector.spark.last_batch import LastBatch
from penstock.connector.spark.micro_batch import MicroBatch

__all__ = ["LEDGER_FOLDER", "Manifest", "manifest_of", "newest", "writer_name"]

LEDGER_FOLDER = "_penstock"
"""Inside the table's folder; what begins with _ is no part of a table, for us, Spark, Flink and DuckDB alike."""

VERSION = 1
SPARKS_NULL = "__HIVE_DEFAULT_PARTITION__"
_MANIFEST = re.compile(r"([0-9]{20})\.json")
# part-00000-<uuid>.c000.json, part-00000-<uuid>-c000.snappy.parquet
_ENDING = re.compile(r"[.-]c[0-9]+(\..*)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of one batch: from where (inside the staging folder) to where (inside the table's folder).

    `replaces` are files inside the table's folder that give way to them.
    """

    batch: LastBatch
    files: tuple[tuple[str, str], ...]
    replaces: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The manifest's file name; names sort as batches do."""
        return f"{self.batch.batch_id:020d}.json"

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of partitions that get files, sorted."""
        return tuple(sorted({target.rpartition("/")[0] for _, target in self.files}))

    def encode(self) -> str:
        """Write it as JSON."""
        return json.dumps(
            {
                "version": VERSION,
                "batch": self.batch.batch_id,
                "digest": self.batch.digest,
                "files": [list(pair) for pair in self.files],
                "replaces": list(self.replaces),
            }
        )

    @classmethod
    def decode(cls, text: str, *, path: str) -> Manifest:
        """Read it. Raises StateMismatchError for a file that is damaged or of a newer Penstock."""
        try:
            value = json.loads(text)
            if value["version"] != VERSION:
                raise ValueError(value["version"])
            return cls(
                batch=LastBatch(batch_id=int(value["batch"]), digest=str(value["digest"])),
                files=tuple((str(staged), str(target)) for staged, target in value["files"]),
                replaces=tuple(map(str, value.get("replaces", ()))),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StateMismatchError(
                f"{path} does not say which batch the folder holds: it is damaged, or of a newer Penstock",
                hint="restore it; or empty the folder and SET another 'pipeline.name', to begin anew",
            ) from error


def writer_name(batch: MicroBatch) -> str:
    """Name the folder of a query's manifests, and its files: the query's id, and which of its sinks."""
    if not batch.sink:
        return batch.query_id
    return f"{batch.query_id}-{hashlib.sha256(batch.sink.encode()).hexdigest()[:8]}"


def newest(names: Iterable[str]) -> str | None:
    """Find the newest manifest among names of files; None where there is none."""
    return max((name for name in names if _MANIFEST.fullmatch(name)), default=None)


def manifest_of(
    staged: Iterable[str], batch: LastBatch, *, writer: str, default_partition: str
) -> Manifest:
    """Name the files that Spark has staged: by writer, batch and number, so that no two batches meet."""
    files = []
    rows = sorted(path for path in staged if not is_hidden(path.rpartition("/")[2]))
    for index, path in enumerate(rows):
        folder, _, name = path.rpartition("/")
        ending = _ENDING.search(name)
        final = f"part-{writer}-{batch.batch_id}-{index:05d}{(ending and ending[1]) or ''}"
        folders = [_folder(each, default_partition) for each in folder.split("/") if each]
        files.append((path, "/".join([*folders, final])))
    return Manifest(batch=batch, files=tuple(files))


def _folder(name: str, default_partition: str) -> str:
    """Give the folder of NULL, which is the empty text's too, its declared name."""
    column, _, value = name.partition("=")
    return f"{column}={default_partition}" if value == SPARKS_NULL else name
