"""Dead letters on the page and as JSON, from a Delta table that a run would leave beside its checkpoint."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.arrow import arrow_schema
from penstock.connector.dead_letters.table import define_dead_letter_table
from penstock.connector.delta import log
from penstock.connector.options.bad_records import BesideCheckpoint
from penstock.sql.ui.application import StatusView, application
from penstock.sql.ui.documents import dead_letters as documents
from penstock.sql.ui.documents.dead_letters import LONGEST_VALUE, NEWEST
from penstock.sql.ui.documents.fields import SCHEMAS
from penstock.sql.ui.documents.stored import StoredPipelines
from tests.sql.sql_objects import run

ORDERS = "default_catalog.default_database.orders"
VISITS = "default_catalog.default_database.visits"
BASE = datetime(2026, 1, 2, tzinfo=UTC)
OF_TOPIC = """CREATE TABLE visits (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'visits', 'format' = 'json',
  'properties.bootstrap.servers' = 'nowhere:1', 'bad-records' = 'dead-letter', 'dead-letter.topic' = 'letters');"""


def letter(number: int, table: str, value: bytes = b"{") -> dict:
    """A letter of topic `orders` at this offset, left out at this second."""
    return {
        "table": table,
        "pipeline": f"shop/{table.rpartition('.')[2]}",
        "batch_id": 1,
        "topic": "orders",
        "partition": 2,
        "offset": number,
        "timestamp": BASE,
        "key": b"k\xff",
        "value": value,
        "stage": "value",
        "error": "it is not valid JSON",
        "left_out_at": BASE + timedelta(seconds=number),
    }


@pytest.fixture
def namespace(tmp_path):
    """An empty catalog."""
    return Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db"))


@pytest.fixture
def client(namespace, tmp_path):
    """A browser at the page of the project."""
    stored = StoredPipelines(namespace=namespace, project=tmp_path)
    return TestClient(
        application(StatusView(jobs=list, stored=stored)), base_url="http://127.0.0.1"
    )


def keep(project: Path, letters: list[dict]) -> None:
    """Write letters where the query `shop/t` has them."""
    schema = arrow_schema(
        (column.name, column.type)
        for column in define_dead_letter_table(BesideCheckpoint(), "x").schema.physical
    )
    rows = [{**dict.fromkeys(schema.names), **each} for each in letters]
    folder = project / ".penstock" / "checkpoints" / "shop" / "t" / "dead-letters"
    write_deltalake(str(folder), pa.Table.from_pylist(rows, schema), mode="append")


def test_letters_are_counted_by_reason_with_the_command_that_gives_them_back(client, tmp_path):
    """The newest come first, with the position of the record; each field is described."""
    keep(tmp_path, [letter(n, ORDERS) for n in range(25)] + [letter(99, VISITS)])

    found = client.get("/api/v1/dead-letters").json()

    assert [(each["table"], each["letters"], each["replayed"]) for each in found["reasons"]] == [
        (ORDERS, 25, 0),
        (VISITS, 1, 0),
    ]
    assert found["reasons"][0]["replay"] == "penstock dlq replay --pipeline shop/orders --yes"
    assert len(found["newest"]) == NEWEST
    assert [each["position"] for each in found["newest"][:2]] == [
        "orders, partition 2, offset 99",
        "orders, partition 2, offset 24",
    ]
    assert found["newest"][0]["left_out"] == "2026-01-02T00:01:39.000Z"
    assert found["newest"][0]["key"] == "k\\xff"
    assert not found["newest"][0]["replayed"]
    assert found["newest"][0].keys() <= {field.name for field in SCHEMAS["DeadLetter"]}
    assert found["reasons"][0].keys() <= {field.name for field in SCHEMAS["DeadLetterReason"]}


def test_those_of_one_table_are_found_behind_newer_ones_of_others(client, tmp_path):
    """In JSON and on the page."""
    keep(tmp_path, [letter(1, ORDERS)] + [letter(n, VISITS) for n in range(50, 100)])

    found = client.get("/api/v1/dead-letters", params={"table": ORDERS}).json()
    page = client.get("/dead-letters", params={"table": ORDERS}).text

    assert [each["position"] for each in found["newest"]] == ["orders, partition 2, offset 1"]
    assert [each["table"] for each in found["reasons"]] == [ORDERS]
    assert "offset 1<" in page
    assert "offset 99" not in page


def test_a_record_is_text_and_not_markup_and_a_long_one_is_cut(client, tmp_path):
    """Whoever writes into the topic writes onto no page."""
    keep(
        tmp_path,
        [letter(1, ORDERS, b"<script>alert(1)</script>"), letter(2, ORDERS, b"x" * 99_999)],
    )

    page = client.get("/dead-letters").text
    found = client.get("/api/v1/dead-letters").json()

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert len(found["newest"][0]["value"]) == LONGEST_VALUE + 1


def test_letters_of_a_topic_are_told_to_be_elsewhere(client, namespace):
    """The page starts no Spark; the command does."""
    run(OF_TOPIC, namespace)

    assert "penstock dlq show" in client.get("/api/v1/dead-letters").json()["elsewhere"]
    assert "penstock dlq show" in client.get("/dead-letters").text


def test_a_project_without_letters_has_a_page(client):
    """Nothing is wrong."""
    assert client.get("/api/v1/dead-letters").json() == {"reasons": [], "newest": []}
    assert "No record was left out" in client.get("/dead-letters").text


def test_requests_at_the_same_time_and_later_ones_read_once(client, tmp_path, monkeypatch):
    """Until more letters are written: the process may be one that runs pipelines."""
    keep(tmp_path, [letter(1, ORDERS)])
    reads, begun, go_on = [], Event(), Event()

    def reading(tables, table, read=documents._read):
        reads.append(table)
        begun.set()
        assert go_on.wait(60)
        return read(tables, table)

    monkeypatch.setattr(documents, "_read", reading)
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(client.get, "/api/v1/dead-letters")]
        assert begun.wait(60)
        answers.append(pool.submit(client.get, "/dead-letters"))
        go_on.set()
        assert [each.result().status_code for each in answers] == [200, 200]
    assert client.get("/api/v1/dead-letters").json()["reasons"][0]["letters"] == 1
    assert reads == [None]

    keep(tmp_path, [letter(2, ORDERS)])
    assert client.get("/api/v1/dead-letters").json()["reasons"][0]["letters"] == 2
    assert reads == [None, None]


def test_who_waits_for_long_is_told_so(client, tmp_path, monkeypatch):
    """Threads of the server are few."""
    keep(tmp_path, [letter(1, ORDERS)])
    begun, go_on = Event(), Event()

    def reading(tables, table, read=documents._read):
        begun.set()
        assert go_on.wait(60)
        return read(tables, table)

    monkeypatch.setattr(documents, "_read", reading)
    monkeypatch.setattr(documents, "LONGEST_WAIT_S", 0.01)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.get, "/api/v1/dead-letters")
        assert begun.wait(60)
        try:
            assert client.get("/api/v1/dead-letters").json() == {"elsewhere": documents.BUSY}
        finally:
            go_on.set()
        assert len(first.result().json()["newest"]) == 1


def test_letters_of_more_than_is_read_here_are_spark_s(client, tmp_path, monkeypatch):
    """The command that shows them is said."""
    keep(tmp_path, [letter(1, ORDERS)])
    monkeypatch.setattr(log, "MOST_BYTES", 100)

    assert "penstock dlq show" in client.get("/api/v1/dead-letters").json()["elsewhere"]
