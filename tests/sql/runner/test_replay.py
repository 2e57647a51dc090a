"""The deeper levels of `penstock validate` against a real broker: what is there, and rows through a query."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.check.connectivity import check_connectivity, tables_of
from penstock.sql.check.script_check import check_scripts
from penstock.sql.execution.context import SessionContext
from penstock.sql.runner import replay as sampling
from penstock.sql.runner.replay import Replayed, queries_of, replay, sample
from penstock.sql.script.files import ScriptFile

SQL = """
CREATE TABLE numbers (n BIGINT, kind STRING, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  WATERMARK FOR at AS at - INTERVAL '1' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'properties.group.id' = 'never-joined', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE counts (kind STRING, total BIGINT) WITH ('connector' = 'print');
CREATE TABLE gone (n BIGINT) WITH ('connector' = 'kafka', 'topic' = 'no-such-{topic}',
  'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json');
INSERT INTO counts SELECT kind, COUNT(*) FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(at), INTERVAL '1' DAY))
  GROUP BY kind, window_start, window_end;
INSERT INTO gone SELECT n FROM numbers;
"""


@pytest.fixture
def statements(kafka, topic, project):
    """The statements of a file over a topic with 30 records in each of two partitions."""
    name = topic(partitions=2)
    for partition in (0, 1):
        rows = [{"n": n, "kind": f"k{partition}"} for n in range(30)]
        kafka.produce_json(name, rows, partition=partition)
    text = SQL.format(topic=name, bootstrap=kafka.bootstrap)
    namespace = Namespace(SqlCatalog("sqlite://"))
    checked = check_scripts(
        (ScriptFile(name="a.sql", text=text),),
        SessionContext(namespace=namespace, project=project),
        variables={},
        env={},
    )

    def statements() -> list[Replayed]:
        return list(replay(checked, SessionContext(namespace=namespace, project=project)))

    return statements


def test_each_table_is_named_with_what_was_found(statements, project: Path, kafka):
    """Metadata only: the consumer group stays unknown to the broker."""
    looks = {
        look.name: look
        for look in (check_connectivity(u, project) for u in tables_of(statements()))
    }

    assert looks["numbers"].text.endswith("2 partitions, 60 offsets held")
    assert looks["numbers"].use.words == "read"
    assert looks["counts"].text == "nothing to look at"
    assert isinstance(looks["gone"].error, UnknownObjectError)
    groups = kafka.admin.list_consumer_groups().result().valid
    assert "never-joined" not in {group.group_id for group in groups}


def test_rows_of_the_first_records_come_through_a_query(statements, spark, monkeypatch):
    """Of each partition those at its start; every window closes, and columns are named as the target's."""
    monkeypatch.setattr(sampling, "RECORDS_PER_SPLIT", 20)
    (insert,) = [one for one in statements() if one.checked.analysed][:1]

    found = sample(queries_of(insert)[0], insert.planner, spark, rows=10)

    assert found.columns == ("kind", "total")
    assert sorted(found.rows) == [("k0", 20), ("k1", 20)]
