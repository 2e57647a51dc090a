"""What a request must bring: the headers that browsers set, and the name that it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.ui.application import StatusView, application
from penstock.sql.ui.documents.stored import StoredPipelines


@pytest.fixture
def view(tmp_path: Path) -> StatusView:
    """The view of an empty project."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db"))
    return StatusView(jobs=list, stored=StoredPipelines(namespace=namespace, project=tmp_path))


@pytest.fixture
def client(view: StatusView) -> TestClient:
    """A browser at this machine."""
    return TestClient(application(view), base_url="http://127.0.0.1")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    "path", ["/dead-letters", "/settings", "/api/v1/doctor", "/static/page.js"]
)
def test_a_page_of_another_server_makes_this_one_work_for_nothing(
    client: TestClient, site: str, path: str
) -> None:
    """As an image or a script that it loads again and again, or in a frame."""
    for mode, kind in (("no-cors", "image"), ("no-cors", "script"), ("navigate", "iframe")):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": kind}
        assert client.get(path, headers=headers).status_code == 403, (mode, kind)


def test_a_link_of_another_server_leads_here(client: TestClient) -> None:
    """And what the page itself loads comes, as does what a program asks for."""
    link = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for headers in (
        {"Sec-Fetch-Site": "cross-site", **link},
        {"Sec-Fetch-Site": "none", **link},
        {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {},
    ):
        assert client.get("/tables", headers=headers).status_code == 200, headers
