"""Manifests: which staged file goes where, under which name."""

from __future__ import annotations

import pytest

from penstock.catalog.definitions.leases import this_process
from penstock.catalog.errors import StateMismatchError
from penstock.connector.contract import MicroBatch
from penstock.connector.filesystem.sink.manifest import (
    Manifest,
    StagedFile,
    batch_of,
    done_name,
    manifest_of,
    newest,
    staging_name,
    writer_name,
)
from penstock.connector.spark.sink.last_batch import LastBatch

BATCH = LastBatch(batch_id=7, digest="abc")
UUID = "0b5e0a4e-4f8e-4f7c-9d0e-222222222222"


def test_files_are_named_by_writer_batch_and_number() -> None:
    """What Spark leaves beside the rows stays behind; the folder of NULL gets the declared name."""
    staged = [
        "_SUCCESS",
        f"day=2026-01-31/part-00001-{UUID}.c000.json",
        f"day=__HIVE_DEFAULT_PARTITION__/part-00000-{UUID}.c001.snappy.parquet",
        f"part-00000-{UUID}-c000",
    ]
    sizes = {name: 10 + index for index, name in enumerate(staged)}
    manifest = manifest_of(sizes, BATCH, writer="w", staging="7-ab", default_partition="NONE")

    assert manifest.files == (
        StagedFile(staged=staged[1], final="day=2026-01-31/part-w-7-00000.json", size=11),
        StagedFile(staged=staged[2], final="day=NONE/part-w-7-00001.snappy.parquet", size=12),
        StagedFile(staged=staged[3], final="part-w-7-00002", size=13),
    )
    assert manifest.folders == ("", "day=2026-01-31", "day=NONE")


def test_a_manifest_is_read_as_it_was_written() -> None:
    """The newest is the one with the highest batch."""
    files = (StagedFile(staged="a", final="b", size=3),)
    manifest = Manifest(batch=BATCH, staging="7-ab", files=files, owner=this_process())

    assert Manifest.decode(manifest.encode(), path="p") == manifest
    names = [
        Manifest(batch=LastBatch(batch_id=n, digest=""), staging="", files=()).name
        for n in (9, 10, 100)
    ]
    assert newest([*names, "9", "100", "00000000000000000200.json.tmp"]) == names[-1]
    assert newest(["7"]) is None


def test_a_manifest_without_sizes_is_read() -> None:
    """Those of older versions, whose attempts shared one staging folder."""
    text = '{"version": 1, "batch": 7, "digest": "abc", "files": [["a", "b"]], "replaces": []}'

    assert Manifest.decode(text, path="p") == Manifest(
        batch=BATCH, staging="7", files=(StagedFile(staged="a", final="b"),)
    )


def test_what_is_of_a_batch_is_known_by_its_name() -> None:
    """Staging folders of this version and of older ones, manifests, notes; nothing else."""
    names = [f"{7:020d}.json", done_name(7), staging_name(7, "0a1b"), "7"]

    assert [batch_of(name) for name in names] == [7, 7, 7, 7]
    assert [batch_of(name) for name in (".7.json.ab.tmp", "x", "7.json.tmp")] == [None] * 3


@pytest.mark.parametrize(
    "text", ["", "{", "{}", '{"version": 3}', '{"version": 2}', '{"version": 1, "batch": 1}']
)
def test_a_damaged_manifest_is_refused(text: str) -> None:
    """Never taken for an empty folder."""
    with pytest.raises(StateMismatchError, match="does not say which batch"):
        Manifest.decode(text, path="p")


def test_the_sinks_of_a_query_have_writers_of_their_own() -> None:
    """Whatever their names are."""

    def writer(sink: str) -> str:
        batch = MicroBatch(spark=None, checkpoint="c", query_id=UUID, batch_id=0, sink=sink)  # type: ignore[arg-type]
        return writer_name(batch)

    assert writer("") == UUID
    assert len({writer(""), writer("a/b"), writer("a b")}) == 3
    assert "/" not in writer("a/b")
