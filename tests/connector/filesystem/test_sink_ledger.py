"""Manifests: which staged file goes where, under which name."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.connector.filesystem.sink_ledger import Manifest, manifest_of, newest, writer_name
from penstock.connector.spark.last_batch import LastBatch
from penstock.connector.spark.micro_batch import MicroBatch

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
    manifest = manifest_of(staged, BATCH, writer="w", default_partition="NONE")

    assert manifest.files == (
        (staged[1], "day=2026-01-31/part-w-7-00000.json"),
        (staged[2], "day=NONE/part-w-7-00001.snappy.parquet"),
        (staged[3], "part-w-7-00002"),
    )
    assert manifest.folders == ("", "day=2026-01-31", "day=NONE")


def test_a_manifest_is_read_as_it_was_written() -> None:
    """The newest is the one with the highest batch."""
    manifest = Manifest(batch=BATCH, files=(("a", "b"),))

    assert Manifest.decode(manifest.encode(), path="p") == manifest
    names = [Manifest(batch=LastBatch(batch_id=n, digest=""), files=()).name for n in (9, 10, 100)]
    assert newest([*names, "9", "100", "00000000000000000200.json.tmp"]) == names[-1]
    assert newest(["7"]) is None


@pytest.mark.parametrize("text", ["", "{", "{}", '{"version": 2}', '{"version": 1, "batch": 1}'])
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
