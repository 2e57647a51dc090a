"""A target's PRIMARY KEY that is not the query's: the rows of each key are kept, as by Flink's SinkUpsertMaterializer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.sql.incremental.stages import RecomputeOperator
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.plan.query_location import as_checkpointed, insert_fingerprint
from penstock.sql.statements.dml import InsertInto
from tests.sql.plan.test_analysis import KAFKA, TABLES
from tests.sql.sql_objects import new_namespace, run

MORE = f"""{TABLES};
CREATE TABLE bare (id BIGINT, region STRING) WITH ({KAFKA}, 'format' = 'debezium-json');
CREATE TABLE shipments (s BIGINT, id BIGINT, PRIMARY KEY (s) NOT ENFORCED) WITH ({KAFKA}, 'format' = 'debezium-json');
CREATE TABLE log (id BIGINT, region STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'kafka', 'topic' = 'u', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'debezium-json')
"""


def analyse(sql: str) -> AnalysedInsert:
    """Analyse an INSERT over the tables above."""
    namespace = new_namespace(MORE)
    (statement,) = run(f"INSERT INTO {sql}", namespace)
    assert isinstance(statement, InsertInto)
    return Planner(namespace=namespace, project=Path("/nowhere")).analyse_insert(statement)


@pytest.mark.parametrize(
    ("insert", "key"),
    [
        ("copy SELECT id, region FROM bare", "id"),
        ("counts SELECT region, id FROM cdc", "k"),
        ("counts SELECT region, 1 FROM cdc", "k"),
        ("counts SELECT region, id FROM cdc ON CONFLICT DO DEDUPLICATE", "k"),
        ("copy SELECT c.id, CAST(s.s AS STRING) FROM cdc AS c LEFT JOIN shipments AS s ON c.id = s.id", "id"),
        ("copy SELECT a.id, b.k FROM events AS a LEFT JOIN events AS b ON a.id = b.id", "id"),
        ("counts SELECT k, n FROM (SELECT id, MAX(k) AS k, COUNT(*) AS n FROM events GROUP BY id)", "k"),
    ],
)  # fmt: skip
def test_the_row_of_a_key_that_was_added_last_is_in_the_target(insert: str, key: str) -> None:
    """All of a key's rows are kept, and a deletion brings the one before back; lost without a word before."""
    found = analyse(insert).query

    assert found.maintained is not None
    stage = [s for s in found.maintained.stages if isinstance(s, RecomputeOperator)][-1]
    assert [(given.key, given.by_change) for given in stage.inputs] == [((key,), True)]
    assert found.flow.key == (key,)


@pytest.mark.parametrize(
    "insert",
    [
        "copy SELECT id, region FROM cdc",
        "counts SELECT k, COUNT(*) FROM events GROUP BY k",
        "counts SELECT k, id FROM events",
        "log SELECT id, region FROM bare",
    ],
)
def test_rows_that_fit_the_target_are_not_kept(insert: str) -> None:
    """Nor inserts, of which the last one counts, nor what goes into a log of changes, which has no rows by key."""
    assert analyse(insert).query.maintained is None


def test_a_checkpoint_of_changes_that_went_into_the_target_as_they_came_is_resumed() -> None:
    """Its state has no rows to go back to."""
    insert = analyse("copy SELECT id, region FROM bare")
    (before,) = insert.earlier
    shape = insert_fingerprint(replace(insert, query=before))

    assert before.maintained is None
    assert as_checkpointed(insert, shape).query is before
    assert as_checkpointed(insert, None) is insert


def test_what_cannot_be_kept_is_refused_with_both_keys() -> None:
    """A row that is computed anew each time is not found when it is to be deleted."""
    with pytest.raises(UnsupportedError, match="several may have one") as caught:
        analyse("copy SELECT id, CAST(CURRENT_TIMESTAMP AS STRING) FROM bare")

    assert caught.value.hint is not None
    assert caught.value.hint.startswith("declare the PRIMARY KEY of the tables that are read")
