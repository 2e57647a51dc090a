"""Table functions in Python on Spark: in a query of rows, in a view, and in a stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.sql.session.session import connect

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TEXTS = """
from pyspark.sql.functions import udtf


@udtf(returnType="word STRING NOT NULL, length INT")
class words:
    def eval(self, text):
        for word in (text or "").split():
            yield word, len(word)
"""
TABLES = """
CREATE FUNCTION words AS 'taken_words.words' LANGUAGE PYTHON;
CREATE TABLE lines (id BIGINT, line STRING)
  WITH ('connector' = 'filesystem', 'path' = 'lines', 'format' = 'json', 'source.monitor-interval' = '1 s');
CREATE TABLE taken (id BIGINT, word STRING, n INT) WITH ('connector' = 'delta', 'path' = 'taken');
CREATE VIEW taken_apart AS SELECT id, w FROM taken LEFT JOIN LATERAL TABLE(words(word)) AS x (w, n) ON TRUE;
"""
STREAM = """
INSERT INTO taken SELECT l.id, x.w, x.n FROM lines AS l
  LEFT JOIN LATERAL TABLE(words(l.line)) AS x (w, n) ON TRUE;
"""
LINES = [(1, "to be"), (2, ""), (3, None)]


def test_a_table_function_runs_in_batches_views_and_streams(
    spark: SparkSession, project: Path
) -> None:
    """LEFT JOIN keeps the rows for which it gives nothing, other joins do not; its own names hold where none are given."""
    (project / "taken_words.py").write_text(TEXTS, encoding="utf-8")
    (project / "lines").mkdir()
    text = "\n".join(json.dumps({"id": number, "line": line}) for number, line in LINES)
    (project / "lines" / "1.json").write_text(text, encoding="utf-8")
    script, tables = project / "job.sql", project / "tables.sql"
    script.write_text(STREAM, encoding="utf-8")
    tables.write_text(TABLES, encoding="utf-8")
    with connect(spark) as session:
        session.run_file(tables)
        (job,) = session.run_file(script, available_now=True)
        job.await_termination(60)
        found = [
            {tuple(row) for row in session.sql(query).collect()}  # type: ignore[union-attr]
            for query in (
                "SELECT id, word, n FROM taken",
                "SELECT t.id, x.word, x.length FROM taken AS t, LATERAL TABLE(words(t.word)) AS x",
                "SELECT id, w FROM taken_apart",
                "SELECT w FROM TABLE(words('a bc')) AS x (w, n) WHERE n > 1",
                "SELECT id, w FROM taken JOIN LATERAL TABLE(words(word)) AS x (w, l) ON TRUE WHERE w <> 'to'",
            )
        ]

    kept = {(1, "to", 2), (1, "be", 2), (2, None, None), (3, None, None)}
    assert found[0] == kept
    assert found[1] == {row for row in kept if row[0] == 1}
    assert found[2] == {row[:2] for row in kept}
    assert found[3] == {("bc",)}
    assert found[4] == {(1, "be")}
