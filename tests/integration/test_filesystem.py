"""Tables of files on Spark: a folder as a frame, and a monitored folder into a Delta table."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from pyspark.sql import SparkSession

import penstock


def write(path: Path, *ids: int) -> None:
    """Write a file of JSON lines, compressed where its name says so."""
    text = "".join(json.dumps({"id": i, "name": f"n{i}"}) + "\n" for i in ids).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def test_a_static_folder_is_a_frame(spark: SparkSession, project: Path) -> None:
    """Every line once, however many tasks read a file; with what the path says of it."""
    write(project / "in" / "day=2026-01-01" / "a.json", *range(100))
    write(project / "in" / "day=2026-01-02" / "b.json.gz", *range(100, 150))
    write(project / "in" / "day=2026-01-02" / "_unfinished.json", 999)
    with penstock.connect(spark) as session:
        session.sql("""
            CREATE TEMPORARY TABLE orders (id BIGINT, name STRING, `day` DATE, file STRING METADATA FROM 'file.name')
            PARTITIONED BY (`day`)
            WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'scan.parallelism' = '3')""")
        rows = session.sql("SELECT id, name, CAST(`day` AS STRING), file FROM orders").collect()  # type: ignore[union-attr]
        (count,) = session.sql("SELECT COUNT(*) FROM orders").collect()  # type: ignore[union-attr]

    assert sorted(tuple(row) for row in rows) == [
        (i, f"n{i}", *(("2026-01-01", "a.json") if i < 100 else ("2026-01-02", "b.json.gz")))
        for i in range(150)
    ]
    assert count[0] == 150


def test_a_monitored_folder_goes_on_with_new_files(spark: SparkSession, project: Path) -> None:
    """A run reads what is there; the next one, from its checkpoint, only the files that came since."""
    write(project / "in" / "a.json", 1, 2)
    script = project / "orders.sql"
    script.write_text(
        """
        CREATE TEMPORARY TABLE orders (id BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in',
          'format' = 'json', 'source.monitor-interval' = '1 s');
        CREATE TEMPORARY TABLE kept (id BIGINT) WITH ('connector' = 'delta', 'path' = 'kept');
        INSERT INTO kept SELECT id FROM orders;
        """,
        encoding="utf-8",
    )
    counts = []
    for ids in ((3,), (4, 5)):
        with penstock.connect(spark) as session:
            (job,) = session.run_file(script, available_now=True)
            assert job.exception is None
        write(project / "in" / f"{ids[0]}.json", *ids)
        counts.append(
            [row.id for row in spark.read.format("delta").load(str(project / "kept")).collect()]
        )

    assert [sorted(ids) for ids in counts] == [[1, 2], [1, 2, 3]]
    # offsets name files of the checkpoint, which say what was read
    assert len(list((project / ".penstock").glob("checkpoints/**/seen-files/*-hash16-*"))) == 2
