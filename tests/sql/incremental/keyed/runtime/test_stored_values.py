"""Values of each type in keyed state: as keys, over files, caches and merges."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from penstock.sql.incremental.keyed.files.manifest import MOST_FILES, BucketFiles, StateManifest
from penstock.sql.incremental.keyed.files.manifest_folder import Manifests
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime.bucket_cache import BucketLocation
from penstock.sql.incremental.keyed.runtime.bucket_state import BucketState
from penstock.sql.incremental.keyed.runtime.compaction import StateCompaction
from penstock.sql.incremental.stages import COUNT
from tests.sql.incremental.keyed.oracle import WRITERS
from tests.sql.incremental.keyed.runtime.test_state import BUCKET, MemoryManifests

VALUES: dict[pa.DataType, Sequence[Any]] = {
    pa.bool_(): (True, False),
    pa.int8(): (-128, 127, 0),
    pa.int32(): (-(2**31), 2**31 - 1, 0),
    pa.int64(): (-(2**63), 2**63 - 1, 0),
    pa.float32(): (0.0, math.nan, math.inf, -math.inf, 1.5),
    pa.float64(): (0.0, math.nan, math.inf, -math.inf, 5e-324),
    pa.decimal128(38, 10): (Decimal("9" * 28 + "." + "9" * 10), Decimal("-1E-10"), Decimal(0)),
    pa.string(): ("", " ", "a", "A", "a\0b", "\U0001f600", "\u00e9", "e\u0301"),
    pa.binary(): (b"", b"\0", b"\xff\xfe", b"a"),
    pa.date32(): (date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1)),
    pa.timestamp("us"): (
        datetime(1, 1, 1),
        datetime(2024, 3, 10, 2, 30, 0, 1),  # an hour that some zones leave out
    ),
    pa.timestamp("us", "UTC"): (
        datetime(1883, 11, 18, tzinfo=UTC),
        datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
        datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
    ),
    pa.list_(pa.int32()): ([], [1, None], [1]),
    pa.struct([pa.field("x y", pa.string()), pa.field('q"', pa.int64())]): (
        {"x y": None, 'q"': 1},
        {"x y": "a", 'q"': None},
    ),
}


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose time zone is not UTC."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@dataclass
class Bucket:
    """A bucket's state, batch by batch."""

    folder: Path
    layout: KeyedLayout
    batch: int = 0

    def __post_init__(self) -> None:
        self.files = StateFiles(location=str(self.folder / "state"))
        self.manifests = MemoryManifests()
        layouts = {("s", "a"): self.layout}
        self.compaction = StateCompaction(self.files, cast("Manifests", self.manifests), layouts)
        self.newest = StateManifest(state_id="id", buckets=1, batch_id=-1)

    def open(self) -> BucketState:
        """Open it as the task of the next batch does."""
        location = BucketLocation(
            files=self.files,
            state_id="id",
            bucket=BUCKET,
            stored=self.newest.files.get(BUCKET, BucketFiles()),
            caches=self.folder / "caches",
        )
        return BucketState(location, self.layout, self.batch, writers=WRITERS)

    def look(self, asked: pa.Table) -> pa.Table:
        """Look keys up."""
        state = self.open()
        found = state.rows_of(asked)
        state.close()
        return found

    def add(self, rows: pa.Table) -> None:
        """Run a batch."""
        state = self.open()
        state.write(rows)
        assert state.written is not None
        written = self.newest.with_batch(self.batch, {BUCKET: state.written})
        self.newest = self.compaction.taken(written, 0)
        self.manifests.write(self.newest)
        self.compaction.consider(self.newest, 0)
        assert self.compaction.wait(60)
        self.batch += 1


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_keys_of_each_type_are_found(tmp_path: Path, kind: pa.DataType) -> None:
    """In a new cache, in one that is taken up, and after a merge; NULL equals NULL."""
    values = pa.array([None, *VALUES[kind]], kind)
    layout = KeyedLayout(
        dims=(pa.field("select", pa.string()), pa.field("k", kind)),
        values=(pa.field(COUNT, pa.int64()),),
        key=("k",),
    )
    bucket = Bucket(tmp_path, layout)
    numbers = [pa.array([n] * len(values), pa.int64()) for n in (1, 0)]
    rows = pa.Table.from_arrays(
        [pa.array(["t"] * len(values)), values, *numbers], schema=layout.schema
    )
    (asked_type,) = layout.key_types
    for batch in range(MOST_FILES + 2):
        bucket.add(rows)
        if batch not in (0, 1, MOST_FILES + 1):
            continue
        for place in range(len(values)):
            asked = values.slice(place, 1)
            found = bucket.look(pa.table({"k": asked.cast(asked_type)}))

            assert found.schema == layout.schema
            assert sum(found.column(COUNT).to_pylist()) == batch + 1
            assert {repr(k) for k in found.column("k").to_pylist()} == {repr(asked[0].as_py())}
    assert bucket.compaction.failures == 0
    assert len(bucket.newest.files[BUCKET].files) < MOST_FILES
