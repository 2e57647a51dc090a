"""The page of a table: options with their origin, readers and writers of views and files, and the picture."""

from __future__ import annotations

import re
from threading import Event

import pytest
from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.script.project import find_project
from penstock.sql.ui.application import StatusView, application
from penstock.sql.ui.documents import table_details
from penstock.sql.ui.documents.fields import SCHEMAS
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.documents.table_details import LineageLook
from penstock.sql.ui.lineage_chart import MOST_BOXES, lineage_chart
from penstock.sql.ui.pages import breakable
from tests.sql.metrics.metered import SPLITS, job, read_batch, source_of
from tests.sql.run.scripted import MovedClock
from tests.sql.sql_objects import run

CANARY = "canary-of-a-secret"
TABLES = f"""
CREATE TABLE orders (id BIGINT, amount INT) WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'json',
  'properties.bootstrap.servers' = 'nowhere:1', 'scan.startup.mode' = 'earliest-offset',
  'scan.watermark.alignment.group' = 'shop', 'scan.watermark.alignment.max-drift' = '1 h',
  'properties.ssl.key.password' = '{CANARY}');
CREATE TABLE totals (id BIGINT, amount INT) WITH ('connector' = 'delta', 'path' = 'totals');
CREATE VIEW large AS SELECT id, amount FROM orders WHERE amount > 10;
"""
FULL = "default_catalog.default_database."


@pytest.fixture
def namespace(tmp_path):
    """A catalog of two tables and a view."""
    made = Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db"))
    run(TABLES, made)
    return made


@pytest.fixture
def client(tmp_path, namespace):
    """A browser at the page of a project with a file that fills `totals`."""
    (tmp_path / "penstock.toml").write_text("")
    (tmp_path / "fill.sql").write_text("\nINSERT INTO totals SELECT id, amount FROM large;\n")
    stored = StoredPipelines(namespace=namespace, project=tmp_path)
    return TestClient(
        application(StatusView(jobs=list, stored=stored)), base_url="http://127.0.0.1"
    )


def test_keys_may_break_behind_their_dots_and_are_text(client):
    """Long ones would push the rest off a phone."""
    page = client.get(f"/tables/{FULL}orders").text
    assert "scan.<wbr>startup.<wbr>mode" in page
    assert str(breakable("<b>.x")) == "&lt;b&gt;.<wbr>x"


def table(client, name: str) -> dict:
    """The document of a table."""
    return client.get(f"/api/v1/tables/{FULL}{name}").json()


def test_options_have_their_origin_and_meaning_and_no_secret(client):
    """Those of the table first, then the connector's defaults; each field is described."""
    options = table(client, "orders")["options"]
    found = {each["key"]: each for each in options}

    assert (found["topic"]["value"], found["topic"]["origin"]) == ("orders", "table")
    assert found["properties.ssl.key.password"]["value"] == "******"
    assert found["bad-records"]["origin"] == "default"
    assert found["bad-records"]["meaning"]
    assert [each["origin"] for each in options] == sorted(
        (each["origin"] for each in options), reverse=True
    )
    for each in options:
        assert each.keys() <= {field.name for field in SCHEMAS["TableOption"]}
    page = client.get(f"/tables/{FULL}orders").text
    assert CANARY not in page + str(options)


def test_readers_and_writers_are_those_of_views_and_files(client):
    """A statement of a file by its line; a view is in the catalog."""
    view = {"source": f"{FULL}orders", "target": f"{FULL}large", "by": "VIEW"}
    insert = {
        "source": f"{FULL}large",
        "target": f"{FULL}totals",
        "by": "INSERT",
        "position": "fill.sql:2",
    }
    orders, large, totals = (table(client, name) for name in ("orders", "large", "totals"))

    assert (orders["readers"], orders["writers"]) == ([view], [])
    assert (large["readers"], large["writers"]) == ([insert], [view])
    assert (totals["readers"], totals["writers"]) == ([], [insert])
    assert sorted(map(str, totals["lineage"])) == sorted(map(str, [view, insert]))


def test_the_list_has_the_group_readers_and_writers_of_each(client, monkeypatch):
    """As the page of each has them; each field is described."""
    monkeypatch.setattr(table_details, "FIRST_LOOK_MS", 60_000)
    listed = {each["name"].removeprefix(FULL): each for each in client.get("/api/v1/tables").json()}

    assert listed.keys() == {"orders", "totals", "large"}
    assert {name: each.get("group") for name, each in listed.items()} == {
        "orders": "shop",
        "totals": None,
        "large": None,
    }
    for name, each in listed.items():
        whole = table(client, name)
        assert each.keys() <= {field.name for field in SCHEMAS["TableSummary"]}
        assert (each["readers"], each["writers"]) == (whole["readers"], whole["writers"])
        assert each.get("group") == whole.get("group")
    page = client.get("/tables").text
    assert re.search(r"orders</a></th><td>TABLE</td><td>kafka</td><td>shop</td><td></td><td>", page)
    assert page.count(f'href="/tables/{FULL}large"') == 3


def test_the_list_is_there_while_a_project_file_is_written(client, tmp_path):
    """Without the queries, which its settings decide about."""
    (tmp_path / "penstock.toml").write_text("[settings\n")
    listed = client.get("/api/v1/tables")

    assert listed.status_code == 200
    assert len(listed.json()) == 3
    assert not any("readers" in each for each in listed.json())
    assert client.get("/tables").status_code == 200


def test_a_file_that_cannot_be_read_is_named(client, tmp_path):
    """The others count all the same."""
    (tmp_path / "wrong.sql").write_text("INSERT INTO totals SELECT nothing FROM orders;")

    found = table(client, "totals")

    assert [note.partition(" ")[0] for note in found["lineage_notes"]] == ["wrong.sql"]
    assert len(found["writers"]) == 1


def boxes_of(page: str) -> list[str]:
    """The names in the picture, from left to right."""
    boxes = re.findall(r'<a href="/tables/(\S+?)"><title>.*?<rect x="(\d+)"', page)
    return [name for name, _ in sorted(boxes, key=lambda box: int(box[1]))]


def test_the_picture_has_a_link_to_each_object_from_left_to_right(client):
    """What a table is made of stands at its left."""
    page = client.get(f"/tables/{FULL}large").text

    assert [name.removeprefix(FULL) for name in boxes_of(page)] == [
        "orders",
        "large",
        "totals",
    ]
    assert page.count('class="arrow"') == 2


def pipeline_client(tmp_path, namespace, **changes) -> TestClient:
    """A browser at the page of a pipeline that writes `totals` from `large`."""
    jobs = [job(read_batch(7, source_of(*SPLITS)), sources=("large#2",), **changes)]
    stored = StoredPipelines(namespace=namespace, project=tmp_path)
    return TestClient(
        application(StatusView(jobs=lambda: jobs, stored=stored)), base_url="http://127.0.0.1"
    )


LINEAGE = "/api/v1/lineage?pipeline=shop/totals"


def test_a_pipeline_has_the_picture_of_what_it_writes(client, tmp_path, namespace, monkeypatch):
    """With what is before and behind that; each field is described."""
    monkeypatch.setattr(table_details, "FIRST_LOOK_MS", 60_000)
    run("CREATE VIEW small AS SELECT id FROM totals;", namespace)
    browser = pipeline_client(tmp_path, namespace)
    found = browser.get(LINEAGE).json()
    page = browser.get("/pipelines/shop/totals").text

    assert found["written"] == [f"{FULL}totals"]
    assert [each["target"].removeprefix(FULL) for each in found["flows"]] == [
        "large",
        "small",
        "totals",
    ]
    for each in found["flows"]:
        assert each.keys() <= {field.name for field in SCHEMAS["TableFlow"]}
    assert [name.removeprefix(FULL) for name in boxes_of(page)] == [
        "orders",
        "large",
        "totals",
        "small",
    ]
    assert browser.get("/api/v1/lineage?pipeline=none").status_code == 404
    assert browser.get("/api/v1/lineage").status_code == 404


def test_a_pipeline_of_no_file_of_the_project_has_its_own_query(tmp_path, namespace, monkeypatch):
    """As one that a notebook runs, behind what it reads; a table that it reads twice is one."""
    monkeypatch.setattr(table_details, "FIRST_LOOK_MS", 60_000)
    found = pipeline_client(tmp_path, namespace).get(LINEAGE).json()

    assert found["flows"] == [
        {"source": f"{FULL}orders", "target": f"{FULL}large", "by": "VIEW"},
        {"source": f"{FULL}large", "target": f"{FULL}totals", "by": "INSERT"},
    ]


def test_a_page_of_a_pipeline_does_not_wait_for_a_catalog_that_hangs(
    tmp_path, namespace, monkeypatch
):
    """It shows what runs, and the picture once the catalog has answered."""
    answers = Event()

    def hang(*given, add=table_details.LineageBuilder.add_objects):
        assert answers.wait(60)
        add(*given)

    monkeypatch.setattr(table_details, "FIRST_LOOK_MS", 10)
    monkeypatch.setattr(table_details.LineageBuilder, "add_objects", hang)
    browser = pipeline_client(tmp_path, namespace)
    before = browser.get("/pipelines/shop/totals")
    answers.set()
    monkeypatch.setattr(table_details, "FIRST_LOOK_MS", 60_000)

    assert before.status_code == 200
    assert "orders-0" in before.text
    assert "Lineage" not in before.text
    assert "Lineage" in browser.get("/pipelines/shop/totals").text


def test_lineage_is_looked_for_again_once_it_is_old(tmp_path, namespace, monkeypatch):
    """Pages of pipelines follow each batch, and each look reads the whole catalog."""
    looks, clock = [], MovedClock()

    def counting(*given, plain=table_details._objects):
        looks.append(given)
        return plain(*given)

    monkeypatch.setattr(table_details, "FIRST_LOOK_MS", 60_000)
    monkeypatch.setattr(table_details, "_objects", counting)
    look = LineageLook(clock=clock)

    def project():
        return find_project(tmp_path)

    first = look.recent(namespace, project)
    run("CREATE VIEW small AS SELECT id FROM totals;", namespace)
    assert look.recent(namespace, project) is first
    assert look._looks._ended.wait(60)
    assert len(looks) == 1
    clock.now += table_details.FRESH_MS + 1
    look.recent(namespace, project)
    assert look._looks._ended.wait(60)

    assert len(look.recent(namespace, project).flows) == len(first.flows) + 1
    assert len(looks) == 2


def test_a_round_and_many_objects_are_drawn_once_each():
    """The nearest are shown, and the others counted."""
    flows = [
        {"source": "a", "target": "b", "by": "INSERT"},
        {"source": "b", "target": "a", "by": "INSERT"},
    ]
    many = [{"source": f"t{n:03}", "target": "a", "by": "VIEW"} for n in range(99)]

    assert [box.name for box in lineage_chart(["a"], flows).boxes] == ["a", "b"]
    assert lineage_chart(["a"], many).left_out == 100 - MOST_BOXES
    assert lineage_chart(["a"], []) is None


def test_files_are_read_again_once_one_was_changed_or_the_catalog(
    client, namespace, tmp_path, monkeypatch
):
    """Each look at a table would parse all files of the project."""
    reads = []

    def counting(*given, add=table_details.add_project):
        reads.append(given)
        add(*given)

    monkeypatch.setattr(table_details, "add_project", counting)
    assert table(client, "totals")["writers"] == table(client, "large")["readers"]
    assert len(reads) == 1

    (tmp_path / "more.sql").write_text("INSERT INTO totals SELECT id, amount FROM orders;")
    assert len(table(client, "totals")["writers"]) == 2
    run("CREATE VIEW small AS SELECT id FROM totals;", namespace)
    assert [each["target"] for each in table(client, "totals")["readers"]] == [f"{FULL}small"]
    table(client, "orders")
    assert len(reads) == 3


def test_a_file_that_is_not_text_is_named(client, tmp_path):
    """The page of each table would be missing for it."""
    (tmp_path / "binary.sql").write_bytes(b"\xff\xfe")

    found = table(client, "totals")

    (note,) = found["lineage_notes"]
    assert note.startswith("binary.sql is left out: ")
    assert note.endswith("it is not UTF-8")
    assert len(found["writers"]) == 1
