"""The first rows of a table on its page: read when asked for, by a page of this server, and told why where they are not."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.runner import first_rows as reading
from penstock.sql.ui.access import PageAccess
from penstock.sql.ui.application import StatusView, application
from penstock.sql.ui.documents.fields import SCHEMAS
from penstock.sql.ui.documents.first_rows import AT_ONCE, LONGEST_VALUE
from penstock.sql.ui.documents.stored import StoredPipelines
from tests.sql.sql_objects import run

TABLES = """
CREATE TABLE visits (id BIGINT, who STRING, doubled AS id * 2)
  WITH ('connector' = 'filesystem', 'path' = 'visits', 'format' = 'json');
CREATE TABLE empty (id BIGINT) WITH ('connector' = 'filesystem', 'path' = 'empty', 'format' = 'json');
CREATE TABLE later (id BIGINT) WITH ('connector' = 'delta', 'path' = 'later');
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
CREATE TABLE spark_only (id BIGINT) WITH ('connector' = 'print');
CREATE VIEW some AS SELECT id FROM visits
"""
FULL = "default_catalog.default_database."
ODD = "<img src=x onerror=alert(1)>"


@pytest.fixture
def view(tmp_path: Path) -> StatusView:
    """A project with a few small tables."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db"))
    run(TABLES, namespace)
    (tmp_path / "visits").mkdir()
    (tmp_path / "empty").mkdir()
    rows = [f'{{"id": {n}, "who": "{ODD}"}}' for n in range(30)]
    (tmp_path / "visits/one.json").write_text("\n".join(rows) + "\n")
    return StatusView(jobs=list, stored=StoredPipelines(namespace=namespace, project=tmp_path))


@pytest.fixture
def client(view: StatusView) -> TestClient:
    """A browser at this machine."""
    return TestClient(application(view), base_url="http://127.0.0.1")


def rows_of(client: TestClient, table: str) -> dict[str, Any]:
    """The document of a table's first rows."""
    answer = client.post(f"/api/v1/tables/{FULL}{table}/first-rows")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    assert found.keys() <= {field.name for field in SCHEMAS["FirstRows"]}
    return found


def test_ten_rows_are_read_with_computed_columns(client: TestClient) -> None:
    """In the order of the table, as texts."""
    found = rows_of(client, "visits")

    assert found["columns"] == ["id", "who", "doubled"]
    assert found["rows"] == [[str(n), ODD, str(2 * n)] for n in range(10)]
    assert found["end"] == "the first 10 rows"


def test_a_table_with_fewer_rows_says_that_these_are_all(client: TestClient) -> None:
    """One without any, too; a Delta table that nothing was written into is one."""
    assert rows_of(client, "numbers")["end"] == "all rows that there are"
    assert rows_of(client, "empty")["end"] == "there are no rows"
    assert rows_of(client, "later") == {"columns": ["id"], "rows": [], "end": "there are no rows"}


def test_values_are_text_on_the_page_and_not_markup(client: TestClient) -> None:
    """Records are whatever somebody wrote."""
    page = client.post(f"/tables/{FULL}visits/first-rows").text

    assert "<img" not in page
    assert page.count("&lt;img") == 10
    assert 'id="rows"' not in client.get(f"/tables/{FULL}visits").text


def test_long_values_are_cut(client: TestClient, tmp_path: Path) -> None:
    """A record may have megabytes."""
    (tmp_path / "visits/one.json").write_text(f'{{"id": 1, "who": "{"x" * 5_000}"}}\n')
    assert rows_of(client, "visits")["rows"][0][1] == "x" * LONGEST_VALUE + "…"


def test_what_cannot_be_read_here_says_why_and_what_to_do(client: TestClient) -> None:
    """A view is a query, and the command runs it."""
    for name in ("some", "spark_only"):
        found = rows_of(client, name)
        assert found["problem"]
        assert "rows" not in found
    assert "penstock run" in rows_of(client, "some")["hint"]
    assert client.post(f"/api/v1/tables/{FULL}none/first-rows").status_code == 404
    assert client.post(f"/tables/{FULL}none/first-rows").status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://127.0.0.1"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "https://127.0.0.1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
    ],
)
def test_only_a_page_of_this_server_or_a_program_may_ask(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    """A page elsewhere could make the server read again and again."""
    for path in (f"/tables/{FULL}empty/first-rows", f"/api/v1/tables/{FULL}empty/first-rows"):
        assert client.post(path, headers=headers).status_code == status, path


def test_the_token_is_asked_for_first(view: StatusView) -> None:
    """As for all that is told."""
    client = TestClient(
        application(view, PageAccess(token="a-token-of-more-than-twenty")),
        base_url="http://127.0.0.1",
    )
    asked = client.post(
        f"/tables/{FULL}visits/first-rows", headers={"Origin": "http://evil.example"}
    )
    assert asked.status_code == 401


def test_few_tables_are_read_at_once(
    view: StatusView, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are told to come back, and a turn is given back also by one that failed."""
    begun, done = [Event() for _ in range(AT_ONCE)], Event()
    left = list(begun)

    def hang(*_: object, **__: object) -> None:
        left.pop().set()
        done.wait(60)
        raise ConfigError("it broke")

    monkeypatch.setattr(reading, "first_rows", hang)
    threads = [Thread(target=rows_of, args=(client, "visits")) for _ in begun]
    for thread in threads:
        thread.start()
    assert all(each.wait(60) for each in begun)
    assert "being read now" in rows_of(client, "visits")["problem"]
    done.set()
    for thread in threads:
        thread.join(60)
    monkeypatch.undo()
    assert len(rows_of(client, "visits")["rows"]) == 10
