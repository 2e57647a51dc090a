"""Checkpoints of keyed operators as an earlier version left them: this one replays and goes on.

`saved/before_buckets` is the project of JOB: its targets and, in `checkpoints`, those of its queries. Version 76f4f873
wrote them, the last one whose rows Spark sorted into buckets. Both read the events up to FIRST; in the batch up to SECOND
it was killed, at the failpoint `maintained`: that of `sellers` is in its offsets and nowhere else. Add folders of later
versions, change none.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.connector import scan
from penstock.connector.scan import Scan
from penstock.connector.spark.source import frame as scan_frames

SAVED = Path(__file__).parent / "saved" / "before_buckets"
FIRST, SECOND, THIRD = 1_000, 2_000, 3_000
JOB = """
CREATE TEMPORARY TABLE events (
  event_type INT, person ROW<id BIGINT, name STRING, `dateTime` TIMESTAMP(3)>,
  auction ROW<id BIGINT, seller BIGINT, `dateTime` TIMESTAMP(3)>,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, `dateTime` TIMESTAMP(3)>,
  at AS CASE WHEN event_type = 0 THEN person.`dateTime` WHEN event_type = 1 THEN auction.`dateTime`
    ELSE bid.`dateTime` END,
  WATERMARK FOR at AS at - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark', 'events.num' = '{events}', 'keep-alive' = 'true', 'first-event.rate' = '50',
  'scan.parallelism' = '2', 'person.proportion' = '10', 'auction.proportion' = '15', 'bid.proportion' = '25');
CREATE TEMPORARY VIEW people AS SELECT person.id, person.name, at FROM events WHERE event_type = 0;
CREATE TEMPORARY VIEW auctions AS SELECT auction.id, auction.seller, at FROM events WHERE event_type = 1;
CREATE TEMPORARY VIEW bids AS SELECT bid.auction, bid.bidder, bid.price, bid.channel, at FROM events
WHERE event_type = 2;
CREATE TEMPORARY TABLE sellers (name STRING, id BIGINT)
WITH ('connector' = 'delta', 'path' = 'sellers', 'auto-compaction' = 'false');
CREATE TEMPORARY TABLE channels (n BIGINT, channels BIGINT, PRIMARY KEY (n) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'channels', 'auto-compaction' = 'false');
INSERT INTO sellers SELECT p.name, a.id FROM auctions AS a JOIN people AS p ON a.seller = p.id;
INSERT INTO channels
SELECT n, COUNT(*) FROM (SELECT channel, COUNT(DISTINCT bidder) AS n FROM bids GROUP BY channel) GROUP BY n;
"""


BEGUN: Mapping[str, list[int]] = {"sellers": [0, 1], "channels": [0]}
"""The batches in the offsets of each query; all have the first alone in commits, state and target."""


def run(spark: SparkSession, project: Path, events: int) -> None:
    """Run the job until it has read so many events."""
    (project / "job.sql").write_text(JOB.format(events=events), encoding="utf-8")
    with penstock.connect(spark) as session:
        jobs = session.run_file(project / "job.sql", available_now=True)
    assert [job.exception for job in jobs] == [None] * len(BEGUN)


def rows(spark: SparkSession, target: Path) -> Counter[tuple[Any, ...]]:
    """Return the rows of a target."""
    return Counter(map(tuple, spark.read.format("delta").load(str(target)).collect()))


def numbers(folder: Path) -> list[int]:
    """Return the batches that a folder of a checkpoint has files of."""
    return sorted(int(file.stem) for file in folder.iterdir() if file.stem.isdigit())


def batches_of(target: Path) -> list[int]:
    """Return the batches that a Delta table has."""
    texts = [file.read_text(encoding="utf-8") for file in target.glob("_delta_log/*.json")]
    actions = [json.loads(line) for text in texts for line in text.splitlines()]
    return sorted(action["txn"]["version"] for action in actions if "txn" in action)


def test_the_state_of_an_earlier_version_goes_on_with_rows_by_bucket(
    spark: SparkSession, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks find the buckets in which Spark has put the keys, whole numbers and texts: each event counts once."""
    checkpoints = project / ".penstock" / "checkpoints" / "job"
    shutil.copytree(SAVED / "checkpoints", checkpoints)
    for name, begun in BEGUN.items():
        shutil.copytree(SAVED / name, project / name)
        assert numbers(checkpoints / name / "offsets") == begun
        assert numbers(checkpoints / name / "commits") == [0]
        assert numbers(checkpoints / name / "keyed" / "manifests") == [0]
        assert batches_of(project / name) == [0]
    scans: list[Scan] = []

    def note(one: Scan, path: Path) -> None:
        scans.append(one)
        scan.write_scan(one, path)

    with monkeypatch.context() as patched:
        patched.setattr(scan_frames, "write_scan", note)
        run(spark, project, SECOND)
        for name in BEGUN:
            assert numbers(checkpoints / name / "commits") == [0, 1]
            assert batches_of(project / name) == [0, 1]
        run(spark, project, THIRD)
    assert len([one for one in scans if one.buckets is not None]) == 2 * len(BEGUN)

    at_once = tmp_path / "at_once"
    at_once.mkdir()
    monkeypatch.chdir(at_once)
    run(spark, at_once, THIRD)
    for name in BEGUN:
        assert rows(spark, project / name) == rows(spark, at_once / name)
        assert len(rows(spark, project / name)) > 1
