"""What a request must bring: the headers that browsers set, and the name that it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.ui.access import PageAccess, page_access
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


@pytest.mark.parametrize(
    ("listens", "asked"),
    [
        ("127.0.0.9", "127.0.0.9:8090"),
        ("127.0.0.9", "LocalHost:8090"),
        ("0:0:0:0:0:0:0:1", "[::1]:8090"),
        ("::1", "[0:0::1]:8090"),
        ("LOCALHOST", "localhost"),
    ],
)
def test_an_address_that_is_listened_at_is_a_name_however_it_is_written(
    view: StatusView, listens: str, asked: str
) -> None:
    """It is the one that is printed at the start."""
    access = page_access(host=listens)
    client = TestClient(application(view, access), base_url=access.url(8090))

    assert client.get("/tables").status_code == 200
    assert client.get("/tables", headers={"Host": asked}).status_code == 200
    assert client.get("/tables", headers={"Host": "127.0.0.10:8090"}).status_code == 400


def test_names_of_a_certificate_are_compared_in_one_case(view: StatusView) -> None:
    """As it may have them in capitals."""
    access = PageAccess(host="10.0.0.1", names=("Shop.Example.ORG", "*.Apps.example.org"))
    client = TestClient(application(view, access))
    asked = {
        name: client.get("/tables", headers={"Host": name}).status_code
        for name in ("shop.example.org:1", "a.apps.EXAMPLE.org", "a.b.apps.example.org", "")
    }

    assert [*asked.values()] == [200, 200, 400, 400]


def test_health_is_told_under_any_name(view: StatusView) -> None:
    """A probe of Kubernetes names the address of the pod; all else is refused there."""
    client = TestClient(application(view), base_url="http://10.244.0.17:8090")

    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    assert client.get("/api/v1/pipelines").status_code == 400


@pytest.mark.parametrize(
    "other", ["[bad]=1", 'a="b', 'session={"id": 1, "x": [2]}', "=", "grüße=1", "a b"]
)
def test_the_cookie_of_another_program_of_this_machine_hides_ours_not(
    view: StatusView, other: str
) -> None:
    """Browsers send the cookies of all ports of a name."""
    app = application(view, PageAccess(token="a-token-of-more-than-twenty"))
    client = TestClient(app, base_url="http://127.0.0.1")
    client.get("/?token=a-token-of-more-than-twenty")
    ours = f"penstock={client.cookies['penstock']}"
    client.cookies.clear()

    for sent in (f"{other}; {ours}", f"{ours}; {other}"):
        headers = {"Cookie": sent.encode("utf-8")}
        assert client.get("/tables", headers=headers).status_code == 200, sent
    assert client.get("/tables", headers={"Cookie": other.encode()}).status_code == 401
