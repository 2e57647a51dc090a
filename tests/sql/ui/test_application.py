"""The JSON API and the pages, over jobs without Spark and a catalog of its own."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import replace
from html import unescape
from pathlib import Path
from threading import Thread

import pytest
from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import CatalogError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.observation.pipeline import JobStatus, PipelineTraits
from penstock.sql.ui.access import PageAccess
from penstock.sql.ui.application import Ending, Looks, StatusView, application
from penstock.sql.ui.documents import first_rows
from penstock.sql.ui.documents.fields import SCHEMAS, table_document
from penstock.sql.ui.documents.openapi import openapi_text
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.pages import pipeline_page
from tests.sql.metrics.metered import SPLITS, job, read_batch, source_of, split
from tests.sql.sql_objects import run

CANARY = "canary-of-a-secret"
TABLE = f"""CREATE TABLE orders (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'orders',
  'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json', 'properties.sasl.jaas.config' = '{CANARY}',
  'properties.ssl.key.password' = '{CANARY}');"""


@pytest.fixture
def view(tmp_path):
    """The view of one running pipeline and one table."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db"))
    run(TABLE, namespace)
    jobs = [job(read_batch(7, source_of(*SPLITS)))]
    return StatusView(
        jobs=lambda: jobs, stored=StoredPipelines(namespace=namespace, project=tmp_path)
    )


@pytest.fixture
def client(view):
    """A browser at this machine."""
    return TestClient(application(view), base_url="http://127.0.0.1")


def described(document, schema):
    """Check that each field of a document, and of those in it, is described."""
    fields = {field.name: field for field in SCHEMAS[schema]}
    assert document.keys() <= fields.keys()
    for name, value in document.items():
        assert value is not None, "what is not known is left out"
        if (items := fields[name].items) is not None:
            for each in value:
                described(each, items)


def test_documents_have_the_described_fields_only(client):
    """What the list and a pipeline give is in the OpenAPI file."""
    (summary,) = client.get("/api/v1/pipelines").json()
    found = client.get("/api/v1/pipelines/shop/totals").json()

    described(summary, "PipelineSummary")
    described(found, "Pipeline")
    assert (summary["name"], summary["status"], summary["batch_id"]) == (
        "shop/totals",
        "running",
        7,
    )


def test_a_pipeline_says_what_its_sink_promises(view):
    """In the list; where none is stated it says nothing."""
    stated = PipelineTraits(guarantee="exactly-once")
    jobs = [job(read_batch(7), traits=stated), job(read_batch(7), name="shop/other")]
    client = TestClient(
        application(StatusView(jobs=lambda: jobs, stored=view.stored)), base_url="http://127.0.0.1"
    )

    other, totals = client.get("/api/v1/pipelines").json()
    assert totals["guarantee"] == "exactly-once"
    assert "guarantee" not in other
    described(totals, "PipelineSummary")


def test_a_pipeline_says_since_when_records_are_unread(view, client):
    """The oldest of all tables, where its process knows; nothing where all is read, or it has ended."""
    (summary,) = client.get("/api/v1/pipelines").json()
    seen = "1970-01-01T00:00:06.500Z"  # when batch 7 began
    read = source_of(split(0, 100, None))
    others = [
        job(read_batch(7, read), name="shop/all"),
        job(read_batch(7, source_of(*SPLITS)), name="shop/ended", status=JobStatus.STOPPED),
    ]
    ended = TestClient(
        application(StatusView(jobs=lambda: others, stored=view.stored)),
        base_url="http://127.0.0.1",
    )

    assert summary["oldest_unread"] == seen
    assert f'datetime="{seen}"' in client.get("/").text
    assert f'datetime="{seen}"' in client.get("/pipelines/shop/totals").text
    assert not [each for each in ended.get("/api/v1/pipelines").json() if "oldest_unread" in each]


def test_a_pipeline_has_its_splits_with_state_lag_and_reason(client):
    """The lowest active split holds the watermark; the paused one says why."""
    (table,) = client.get("/api/v1/pipelines/shop/totals").json()["tables"]

    paused, holder, idle = table["splits"]
    assert (paused["state"], paused["why"], paused["lag_records"]) == (
        "paused",
        "customers is behind",
        10,
    )
    assert holder["holds"]
    assert not paused["holds"]
    assert idle["state"] == "idle"


def test_a_table_that_is_read_has_its_connector_and_its_group(view):
    """As the query has it: a hint may name another group than the table. One without has none."""
    batch = read_batch(7, source_of(*SPLITS), source_of(*SPLITS))
    reads = job(
        batch,
        sources=("orders", "customers"),
        connectors=("kafka", "filesystem"),
        alignments=(("shop", 3_600_000), None),
    )
    client = TestClient(
        application(StatusView(jobs=lambda: [reads], stored=view.stored)),
        base_url="http://127.0.0.1",
    )
    orders, customers = client.get("/api/v1/pipelines/shop/totals").json()["tables"]

    assert (orders["connector"], orders["group"]) == ("kafka", "shop")
    assert (customers["connector"], "group" in customers) == ("filesystem", False)
    described(orders, "SourceTable")
    assert "kafka, alignment group shop." in client.get("/pipelines/shop/totals").text


def test_a_pipeline_says_in_a_sentence_what_it_waits_for(client):
    """In JSON, in the list, and on the page."""
    expected = "waits: 1 of 3 splits of orders are paused: customers is behind"
    (summary,) = client.get("/api/v1/pipelines").json()

    assert summary["sentence"] == expected
    assert client.get("/api/v1/pipelines/shop/totals").json()["sentence"] == expected
    assert expected in client.get("/").text
    assert expected in client.get("/pipelines/shop/totals").text


def test_the_description_is_the_file_in_docs():
    """Change docs/openapi.json with it: the text is that of `openapi_text`."""
    file = Path(__file__).parents[3] / "docs" / "openapi.json"

    assert file.read_text() == openapi_text()
    assert json.loads(file.read_text())["paths"]["/api/v1/pipelines"]


def test_a_definition_has_no_secret_anywhere(client):
    """Values of secret options are left out in JSON and on the page."""
    (row,) = client.get("/api/v1/tables").json()
    found = client.get(f"/api/v1/tables/{row['name']}")
    page = client.get(f"/tables/{row['name']}")

    described(found.json(), "Table")
    assert "'topic' = 'orders'" in found.json()["definition"]
    assert page.status_code == 200
    assert CANARY not in found.text + page.text


def test_no_page_and_no_answer_has_a_secret(view, monkeypatch):
    """Not of an option, a message, a reason or the token itself: whatever is asked for, with the token."""
    monkeypatch.setattr(first_rows, "LIMIT_MS", 500)  # nobody answers
    token = f"{CANARY}-that-is-the-token"
    jobs = [job(read_batch(7, source_of(split(0, 90, None, paused="waits"))))]
    url = f"postgresql://me:{CANARY}@nowhere:1/db?password={CANARY}&sslpassword={CANARY}"
    stored = replace(view.stored, catalog_url=url)
    client = TestClient(
        application(StatusView(jobs=lambda: jobs, stored=stored), PageAccess(token=token)),
        base_url="http://127.0.0.1",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert client.get("/api/v1/settings").json()["catalog"] == (
        "postgresql://me:***@nowhere:1/db?password=***&sslpassword=***"
    )
    (row,) = client.get("/api/v1/tables").json()
    named = {"pipelines": "shop/totals", "tables": row["name"]}
    paths = ["/", "/dead-letters", "/api/v1/dead-letters", "/api/v1/openapi.json"]
    paths += ["/settings", "/api/v1/settings", "/api/v1/doctor"]
    paths += ["/api/v1/lineage?pipeline=shop/totals"]
    for kind, name in named.items():
        paths += [f"/api/v1/{kind}", f"/api/v1/{kind}/{name}", f"/{kind}/{name}"]

    for path in (*paths, "/tables", "/none"):
        answer = client.get(path)
        assert answer.status_code == (404 if path == "/none" else 200), path
        assert CANARY not in answer.text + str(answer.headers), path
    for start in ("/api/v1", ""):
        answer = client.post(f"{start}/tables/{row['name']}/first-rows")
        assert answer.status_code == 200
        assert CANARY not in answer.text + str(answer.headers), start


def test_the_page_of_a_pipeline_shows_a_paused_split_and_its_reason(client):
    """With the chart of watermarks, that of the phases of batches, and the picture of its lineage."""
    page = client.get("/pipelines/shop/totals").text

    assert "customers is behind" in page
    assert "holds the watermark" in page
    assert page.count("<svg") == 3
    assert client.get("/").text.count('href="/pipelines/shop/totals"') == 1


def test_pages_have_no_script_or_style_of_their_own(client):
    """The policy forbids both; all they load is of this server."""
    for path in ("/", "/pipelines/shop/totals", "/tables", "/settings"):
        answer = client.get(path)
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert not re.search(r"<script>|<style|\sstyle=|\son\w+=", answer.text)
        loaded = re.findall(r'(?:src|href)="([^"#]+)"', answer.text)
        assert [url for url in loaded if not url.startswith("/")] == []
        for asset in {url for url in loaded if url.startswith("/static/")}:
            assert client.get(asset).status_code == 200


def test_a_catalog_that_cannot_be_read_hides_no_pipeline_of_this_process(view, monkeypatch):
    """As on a full disk, which is when somebody looks; what the catalog alone knows is refused with the reason."""

    def fail(*_, **__):
        raise CatalogError("the catalog cannot be used: disk I/O error")

    monkeypatch.setattr(StoredPipelines, "summaries", fail)
    monkeypatch.setattr(StoredPipelines, "tables", fail)
    client = TestClient(application(view), base_url="http://127.0.0.1")
    tables = client.get("/api/v1/tables")

    assert [each["name"] for each in client.get("/api/v1/pipelines").json()] == ["shop/totals"]
    assert client.get("/").status_code == 200
    assert tables.status_code == 503
    described(tables.json(), "Error")
    assert "disk I/O error" in tables.text


def test_a_catalog_that_cannot_be_read_is_no_list_without_pipelines(view, monkeypatch):
    """Where none runs in this process, as of `penstock ui`."""

    def fail(*_, **__):
        raise CatalogError("the catalog cannot be used: disk I/O error")

    monkeypatch.setattr(StoredPipelines, "summaries", fail)
    alone = StatusView(jobs=tuple, stored=view.stored)
    answer = TestClient(application(alone), base_url="http://127.0.0.1").get("/api/v1/pipelines")

    assert answer.status_code == 503
    assert "disk I/O error" in answer.text


def test_names_are_text_and_not_markup(view):
    """A table may be called anything."""
    odd = split(0, 90, None, paused="<img src=x onerror=alert(1)>")
    jobs = [job(read_batch(7, source_of(odd)))]
    client = TestClient(
        application(StatusView(jobs=lambda: jobs, stored=view.stored)), base_url="http://localhost"
    )

    assert "<img" not in client.get("/pipelines/shop/totals").text


@pytest.mark.parametrize("name", ["shop/..", "../totals", "a/./b", "50% off/#1?", "shop/totals"])
def test_the_link_to_a_pipeline_leads_to_it_whatever_its_name(view, name):
    """A browser goes up a folder at `..` between slashes, also where it is written as %2E%2E."""
    jobs = [job(read_batch(7, source_of(*SPLITS)), name=name)]
    client = TestClient(
        application(StatusView(jobs=lambda: jobs, stored=view.stored)), base_url="http://localhost"
    )

    (link,) = re.findall(r'href="(/pipelines/[^"]*)"', client.get("/").text)
    assert not {".", "..", "%2e", "%2e%2e"} & {*unescape(link).lower().split("/")}
    page = client.get(unescape(link))
    assert page.status_code == 200
    assert "customers is behind" in page.text


def test_another_name_of_this_machine_is_refused(view):
    """A page elsewhere may let its own name lead here."""
    client = TestClient(application(view), base_url="http://rebound.example")

    assert client.get("/api/v1/pipelines").status_code == 400


def test_nothing_can_be_changed(client):
    """Every route is a GET, but the one that reads rows."""
    for path in ("/", "/api/v1/pipelines", "/api/v1/pipelines/shop/totals", "/api/v1/tables"):
        assert client.post(path).status_code == 405
    assert client.put("/tables/orders/first-rows").status_code == 405


def test_what_is_not_there_is_not_found(client):
    """In JSON and on pages, names as text."""
    described(client.get("/api/v1/pipelines/none").json(), "Error")
    assert client.get("/api/v1/pipelines/none").status_code == 404
    assert client.get("/api/v1/tables/none").status_code == 404
    assert client.get("/pipelines/none").status_code == 404


def test_open_pages_share_a_look_at_the_pipelines(view):
    """Ten that ask at a time make one look; a catalog that cannot be read leaves what was seen before."""

    class Counting(StatusView):
        looks = 0

        def pipelines(self):
            type(self).looks += 1
            if self.looks > 1:
                raise CatalogError("the catalog cannot be used")
            return super().pipelines()

    async def look():
        looks = Looks(Counting(jobs=view.jobs, stored=view.stored))
        first = await asyncio.gather(*(looks.pipelines() for _ in range(10)))
        assert looks.problem == ""
        looks._looked_s = 0.0  # the interval has passed
        return first, await looks.pipelines(), looks.problem

    first, later, problem = asyncio.run(look())
    assert [[*each] for each in first] == [["shop/totals"]] * 10
    assert [*later] == ["shop/totals"]
    assert problem == "what is below is of before: the catalog cannot be used"
    assert Counting.looks == 2


def test_whoever_waits_for_the_end_of_a_server_learns_of_it_at_once():
    """From another thread, before and while it is waited for."""

    async def wait():
        ending = Ending()
        before = await ending.begins_within(0.001)
        thread = Thread(target=ending.begin)
        thread.start()
        found = await ending.begins_within(60), await ending.begins_within(60)
        thread.join()
        return before, found

    began = time.monotonic()
    assert asyncio.run(wait()) == (False, (True, True))
    assert time.monotonic() - began < 30


def test_ready_is_a_process_whose_jobs_all_run(view):
    """A failed job makes it unready; the process is healthy all the same."""
    jobs = [job(status=JobStatus.FAILED)]
    client = TestClient(
        application(StatusView(jobs=lambda: jobs, stored=view.stored)), base_url="http://127.0.0.1"
    )

    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").json() == {"status": "ok"}


def test_a_page_of_a_thousand_splits_draws_the_lowest(view):
    """All are in the table; more bars could not be told apart."""
    many = [split(number, 90, 1_767_268_800_000 + number) for number in range(1_000)]
    jobs = [job(read_batch(7, source_of(*many)))]
    client = TestClient(
        application(StatusView(jobs=lambda: jobs, stored=view.stored)), base_url="http://127.0.0.1"
    )

    page = client.get("/pipelines/shop/totals").text

    assert page.count('<th scope="row">orders-') == 1_000
    assert "940 higher ones are not drawn" in page


def test_of_a_checkpoint_only_states_that_need_no_end_are_known(view):
    """Whether a split is caught up is known by its end, which a checkpoint does not have."""
    table = table_document("orders", source_of(*SPLITS), ends_known=False, runs=True)

    assert [each.get("state") for each in table["splits"]] == ["paused", None, "idle"]
    page = pipeline_page({"name": "a", "status": "running", "tables": [table]})
    assert "caught up" not in page


@pytest.mark.parametrize(
    ("runs", "states"),
    [
        (False, ["stopped", "stopped", "stopped", "finished"]),
        (None, [None, None, "idle", "finished"]),
    ],
)
def test_no_split_is_paused_that_nothing_may_read(runs, states):
    """Of a pipeline that does not run, or may not; that it was with the last batch stays there as the reason."""
    done = split(9, 90, 1_767_268_800_000, stop=90)
    source = source_of(*SPLITS, done)
    table = table_document("orders", source, ends_known=False, runs=runs)

    assert [each.get("state") for each in table["splits"]] == states
    first, *others = table["splits"]
    assert first["why"] == "paused with the last batch: customers is behind"
    assert not any("why" in each for each in others)
    page = pipeline_page({"name": "a", "tables": [table]})
    assert "status paused" not in page
    assert "bar paused" not in page


def test_the_splits_of_a_job_that_has_ended_are_stopped(view):
    """Its process may still show it."""
    jobs = [job(read_batch(7, source_of(*SPLITS)), status=JobStatus.STOPPED)]
    client = TestClient(
        application(StatusView(jobs=lambda: jobs, stored=view.stored)), base_url="http://127.0.0.1"
    )

    (table,) = client.get("/api/v1/pipelines/shop/totals").json()["tables"]
    assert {each["state"] for each in table["splits"]} == {"stopped"}
