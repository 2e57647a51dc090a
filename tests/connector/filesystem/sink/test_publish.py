"""Which files an overwriting INSERT replaces."""

from __future__ import annotations

import pytest

from penstock.connector.filesystem.sink.manifest import Manifest, StagedFile
from penstock.connector.filesystem.sink.publish import (
    ReplacedPartitions,
    partitions_of,
    visible_files,
)
from penstock.connector.spark.sink.last_batch import LastBatch

PRESENT = [
    "a=1/b=x%20y/one.json",
    "a=1/b=__DEFAULT__/two.json",
    "a=2/b=z/three.json",
    "_penstock/w/0.json",
    "a=2/_SUCCESS",
]


@pytest.mark.parametrize(
    ("partition", "written", "gone"),
    [
        ({}, ["a=2/b=z"], ["a=2/b=z/three.json"]),
        ({}, ["a=9/b=z"], []),
        ({"a": "1"}, [], ["a=1/b=__DEFAULT__/two.json", "a=1/b=x%20y/one.json"]),
        ({"b": "x y", "a": "1"}, ["a=1/b=x%20y"], ["a=1/b=x%20y/one.json"]),
        ({"b": "__DEFAULT__"}, [], []),
    ],
)
def test_a_partitioned_table_loses_the_partitions_that_are_named_or_written(
    partition: dict[str, str], written: list[str], gone: list[str]
) -> None:
    """Values are compared as they are meant, not as folders spell them; NULL is no value."""
    found = ReplacedPartitions(partition).among(
        visible_files(PRESENT), written, keys=("a", "b"), default_partition="__DEFAULT__"
    )

    assert list(found) == gone


def test_a_table_without_partitions_loses_all_files() -> None:
    """But nothing that is hidden."""
    present = visible_files(["one.json", "_penstock/x.json", ".tmp", "two.json"])

    assert ReplacedPartitions(whole=True).among(
        ["a=1/x"], [], keys=("a",), default_partition="d"
    ) == ("a=1/x",)
    assert ReplacedPartitions().among(present, [""], keys=(), default_partition="d") == (
        "one.json",
        "two.json",
    )


def test_partitions_are_the_folders_with_files() -> None:
    """With the values that columns have."""
    assert partitions_of(visible_files(PRESENT), "__DEFAULT__") == [
        {"a": "1", "b": None},
        {"a": "1", "b": "x y"},
        {"a": "2", "b": "z"},
    ]


def test_a_manifest_says_which_files_give_way() -> None:
    """So that an INSERT that was cut off is finished as it was decided; older manifests replace nothing."""
    manifest = Manifest(
        batch=LastBatch(batch_id=0, digest=""),
        staging="0-ab",
        files=(StagedFile(staged="s", final="t", size=1),),
        replaces=("old.json",),
    )
    older = manifest.encode().replace(', "replaces": ["old.json"]', "")

    assert Manifest.decode(manifest.encode(), path="m") == manifest
    assert Manifest.decode(older, path="m").replaces == ()
