"""Aggregations in two phases give what Spark's own give, for keys, NULL, times and numbers of all kinds."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from penstock.connector.changelog import ChangelogMode
from penstock.sql.convert.statement import parse_statement
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.physical.frames import FrameBuilder
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.script.splitter import split
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.sql.plan.analysed import AnalysedQuery

TABLE = """
CREATE TABLE bids (
  k STRING, b BOOLEAN, t TINYINT, h SMALLINT, i INT, n BIGINT, f FLOAT, d DOUBLE, p DECIMAL(10, 2), q DECIMAL(28, 3),
  e DECIMAL(7, 7), s VARCHAR(20), day DATE, at TIMESTAMP(3), other TIMESTAMP_LTZ(6), r ROW<x INT, y STRING>, twice AS k || k,
  items ARRAY<ROW<sku STRING, n INT>>, tags MAP<STRING, INT>,
  WATERMARK FOR at AS at
) WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601');
"""
WINDOWS = (
    "TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '10' SECOND)",
    "TUMBLE(DATA => TABLE bids, TIMECOL => DESCRIPTOR(at), SIZE => INTERVAL '1' MINUTE, `OFFSET` => INTERVAL '7' SECOND)",
    "HOP(TABLE bids, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
    "CUMULATE(TABLE bids, DESCRIPTOR(at), INTERVAL '10' SECOND, INTERVAL '1' MINUTE)",
)
BOUNDS = "window_start, window_end"
QUERIES = (
    (f"{BOUNDS}, window_time, COUNT(*), COUNT(1), COUNT(k), COUNT(d), MIN(b), MAX(b), MIN(i), MAX(n), MIN(f), MAX(d), MIN(p), "
     "MAX(q), MIN(s), MAX(k), MIN(day), MAX(at), MIN(other), MAX(other), COUNT(*) FILTER (WHERE i > 0) AS c, "
     "SUM(i) FILTER (WHERE k = 'a'), AVG(d) FILTER (WHERE b), MIN(s) FILTER (WHERE p IS NULL)", f"{BOUNDS}, window_time", ""),
    (f"{BOUNDS}, k || '!' AS kk, r.x, SUM(t), SUM(h), SUM(i), SUM(n), SUM(f), SUM(d), SUM(p), SUM(q), AVG(t), AVG(h), AVG(i), "
     "AVG(n), AVG(f), AVG(d), AVG(p), AVG(e), SUM(i) / COUNT(*), SUM(i) * 2, COUNT(*) + MAX(i), "
     "CASE WHEN COUNT(n) > 1 THEN 'many' END, AVG(d) / COUNT(*), AVG(n) / 2", f"{BOUNDS}, k, r.x",
     "HAVING COUNT(*) > 1 AND (k IS NULL OR k <> 'b')"),
    (f"{BOUNDS}, SUBSTRING(k FROM 1 FOR 1), twice, day, p, t, b, MAX(r.x) - MIN(r.x), "
     "SUM(CASE WHEN i > 0 THEN n ELSE 0 END), COUNT(CASE WHEN i = 1 THEN k END)",
     f"twice, p, t, b, SUBSTRING(k FROM 1 FOR 1), day, {BOUNDS}",
     "HAVING SUM(CASE WHEN i > 0 THEN n ELSE 0 END) IS NOT NULL"),
)  # fmt: skip
"""Lists, keys and HAVING."""
WINDOWED = ((0, 0), (1, 1), (2, 2), (0, 3))
"""A query, and its window."""
LINES = "(SELECT x.k, x.at, li.sku, li.n FROM bids AS x LEFT JOIN UNNEST(items) AS li (sku, n) ON TRUE WHERE x.i > -4 AND li.n <> 1)"
OF_ARRAYS = (
    f"SELECT {BOUNDS}, sku, COUNT(*), SUM(n), MAX(k) FROM TABLE({WINDOWS[0].replace('TABLE bids', LINES)}) "
    f"GROUP BY {BOUNDS}, sku",
    f"SELECT {BOUNDS}, li.sku, w.k, COUNT(*), COUNT(w.n), SUM(li.n), AVG(li.n) FROM TABLE({WINDOWS[2]}) AS w "
    f"CROSS JOIN UNNEST(w.items) AS li (sku, n) GROUP BY {BOUNDS}, li.sku, w.k",
    f"SELECT {BOUNDS}, COUNT(*), SUM(li.n) FILTER (WHERE li.sku = 'a'), MIN(m.v) FROM TABLE({WINDOWS[3]}) AS w "
    f"LEFT JOIN UNNEST(w.items) AS li (sku, n) ON TRUE CROSS JOIN UNNEST(tags) AS m (k, v) "
    f"WHERE m.v > 0 AND w.k <> 'c' GROUP BY {BOUNDS} HAVING COUNT(*) > 1",
    f"SELECT {BOUNDS}, v, COUNT(*), MAX(sku) FROM TABLE({WINDOWS[1].replace('TABLE bids', LINES.replace('li.n FROM', 'li.n, tags FROM'))}) AS w "
    f"CROSS JOIN UNNEST(w.tags) AS m (key, v) GROUP BY {BOUNDS}, v",
    f"SELECT sku, k, COUNT(*), SUM(n), MAX(n) FROM {LINES} GROUP BY sku, k",
)
CONDITIONS = ("", "WHERE i > -2 AND (k <> 'c' OR k IS NULL)")


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Draw rows in which many values are NULL; fractions have exact sums."""
    draw = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.15 else value

    found = []
    for _ in range(count):
        at = datetime(1970, 1, 1) + timedelta(milliseconds=draw.randrange(-90_000, 90_000))
        found.append({
            "k": maybe(draw.choice("abcß")), "b": maybe(draw.random() < 0.5), "t": maybe(draw.randrange(-128, 128)),
            "h": maybe(draw.randrange(-(2**15), 2**15)), "i": maybe(draw.randrange(-5, 6)),
            "n": maybe(draw.choice([1, -7, 2**40, 2**53 + 1, -(2**55)])), "f": maybe(draw.randrange(-9, 9) / 4),
            "d": maybe(draw.randrange(-99, 99) / 8), "p": maybe(draw.randrange(-5, 5) / 4),
            "q": maybe(draw.randrange(-999, 999)), "e": maybe(draw.randrange(-9_999_999, 9_999_999) / 10**7), "s": maybe(draw.choice(["", "A", "a", "é", "\U0001f986", "\uffff"])),
            "day": maybe(f"{at:%Y-%m-%d}"), "at": maybe(at.isoformat("T", "milliseconds")),
            "other": maybe(at.isoformat("T", "milliseconds") + "Z"), "r": maybe({"x": maybe(draw.randrange(3)), "y": ""}),
            "items": maybe([maybe({"sku": maybe(draw.choice("ab")), "n": maybe(draw.randrange(3))}) for _ in range(draw.randrange(4))]),
            "tags": maybe({key: maybe(draw.randrange(-2, 3)) for key in "xyz"[: draw.randrange(4)]}),
        })  # fmt: skip
    return found


SINK = SinkTable(name="shown", accepts=ChangelogMode.ALL, columns=())


def planned(text: str, project: Path) -> AnalysedQuery:
    """Check a query."""
    namespace = new_namespace(TABLE)
    (statement,) = (parse_statement(one, namespace) for one in split(f"{text};", "f.sql"))
    assert isinstance(statement, Select)
    return analyse(statement.query, namespace, project, appends=True, sink=SINK)


def answers(frames: list[DataFrame]) -> list[list[str]]:
    """Compute the rows of frames in one job, as sorted texts."""
    texts = [
        frame.toDF(*(f"c{i}" for i in range(len(frame.columns)))).select(
            F.lit(number).alias("number"), F.to_json(F.struct("*")).alias("row")
        )
        for number, frame in enumerate(frames)
    ]
    rows = reduce(DataFrame.unionAll, texts).collect()
    return [sorted(row["row"] for row in rows if row["number"] == n) for n in range(len(frames))]


BY_SPARK = (1, 2, 3, 5)
"""Queries that are run in two phases by Spark, too."""


def selects() -> Iterator[str]:
    """Iterate over the queries, with a place for a condition: of windows, and of groups whose results are updated."""
    for number, window in WINDOWED:
        items, keys, having = QUERIES[number]
        yield f"SELECT {items} FROM TABLE({WINDOWS[window]}) AS w {{}} GROUP BY {keys} {having}"
    for items, keys, having in QUERIES[1:]:
        plain = ", ".join(key for key in keys.split(", ") if not key.startswith("window_"))
        # results that are updated show their key
        shown = items.removeprefix(f"{BOUNDS}, ").replace("k || '!' AS kk", "k")
        yield f"SELECT {shown} FROM bids {{}} GROUP BY {plain} {having}"


def test_two_phases_give_what_spark_gives(spark: SparkSession, project: Path) -> None:
    """In the first one by tasks and, where a condition is not one of theirs, by Spark."""
    (project / "bids").mkdir()
    for part in range(2):
        lines = "\n".join(map(json.dumps, rows(part, 300)))
        (project / "bids" / f"{part}.json").write_text(lines, encoding="utf-8")
    builder = FrameBuilder(
        spark=spark, workdir=project, project=project, conf={}, default_limit=None
    )
    pairs: dict[str, tuple[AnalysedQuery, AnalysedQuery]] = {}
    for number, select in enumerate(selects()):
        query = planned(select.format(CONDITIONS[number % 2]), project)
        assert query.leaves[0].grouped is not None, select
        pairs[select] = (query, query.in_one_phase())
        if number in BY_SPARK:
            outside = planned(select.format("WHERE MD5(s) <> ''"), project)
            (by_spark,) = (form for form in outside.in_other_phases() if form.phases)
            assert outside.phases == ()
            pairs[f"{select}, both by Spark"] = (by_spark, outside)
    check_pairs(builder, pairs)


def check_pairs(
    builder: FrameBuilder, pairs: dict[str, tuple[AnalysedQuery, AnalysedQuery]]
) -> None:
    """Compare the rows of queries in two phases with those in one."""
    frames = [builder.build(form, streaming=False) for pair in pairs.values() for form in pair]
    found = answers(frames)

    for number, text in enumerate(pairs):
        two, one = frames[2 * number : 2 * number + 2]
        assert [f.dataType for f in two.schema] == [f.dataType for f in one.schema], text
        assert len(found[2 * number]) > 3, text
        assert found[2 * number] == found[2 * number + 1], text


def test_two_phases_of_rows_of_arrays_give_what_spark_gives(
    spark: SparkSession, project: Path
) -> None:
    """With UNNEST in front of the window, behind it, and on both sides."""
    (project / "bids").mkdir()
    lines = "\n".join(map(json.dumps, rows(7, 300)))
    (project / "bids" / "0.json").write_text(lines, encoding="utf-8")
    builder = FrameBuilder(
        spark=spark, workdir=project, project=project, conf={}, default_limit=None
    )
    pairs: dict[str, tuple[AnalysedQuery, AnalysedQuery]] = {}
    for text in OF_ARRAYS:
        query = planned(text, project)
        assert query.leaves[0].grouped is not None, text
        pairs[text] = (query, query.in_one_phase())
        if "WHERE m.v" in text:
            outside = planned(text.replace("WHERE m", "WHERE MD5(s) <> '' AND m"), project)
            (by_spark,) = (form for form in outside.in_other_phases() if form.phases)
            pairs[f"{text}, both by Spark"] = (by_spark, outside)
    check_pairs(builder, pairs)


def test_sums_fail_as_spark_s_do(spark: SparkSession, project: Path) -> None:
    """One beyond 64 bits is an error, as it is in one phase."""
    (project / "bids").mkdir()
    lines = [{"n": 2**63 - 1, "at": "2026-01-01T00:00:00"}, {"n": 5, "at": "2026-01-01T00:00:01"}]
    (project / "bids" / "1.json").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    builder = FrameBuilder(
        spark=spark, workdir=project, project=project, conf={}, default_limit=None
    )
    query = planned(f"SELECT {BOUNDS}, SUM(n) FROM TABLE({WINDOWS[0]}) GROUP BY {BOUNDS}", project)

    assert query.leaves[0].grouped is not None
    for form in (query, query.in_one_phase()):
        with pytest.raises(ArithmeticException, match="overflow"):
            builder.build(form, streaming=False).collect()
