"""Who may open the page: what is refused at the start, and the token, names and TLS of a server."""

from __future__ import annotations

import json
import ssl
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.metrics.endpoint import metrics_registry
from penstock.sql.ui.access import PageAccess, announcement, page_access
from penstock.sql.ui.application import StatusView, application
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.server import serving_pages
from tests.sql.metrics.metered import SPLITS, job, read_batch, source_of
from tests.sql.ui.certificates import certificate

TOKEN = "a-token-of-more-than-twenty"
GUARDED = PageAccess(token=TOKEN)


@pytest.fixture
def view(tmp_path):
    """The view of an empty project."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db"))
    return StatusView(jobs=list, stored=StoredPipelines(namespace=namespace, project=tmp_path))


@pytest.fixture
def client(view):
    """A browser at a server that asks for a token; it does not follow redirections."""
    return TestClient(
        application(view, GUARDED), base_url="http://127.0.0.1", follow_redirects=False
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "shop.example.org"])
def test_an_address_that_others_reach_needs_tls(host):
    """The token would be read on its way."""
    with pytest.raises(ConfigError, match="others reach the page") as refused:
        page_access(host=host)
    assert "--tls-cert" in refused.value.hint


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_this_machine_needs_neither_tls_nor_a_token(host):
    """Whoever has an account here may look."""
    assert page_access(host=host).token is None


def test_a_token_is_made_where_others_reach_the_page_and_printed_once(tmp_path):
    """It differs at each start; one of a file is not printed."""
    cert, key = certificate(tmp_path, "shop.example.org", "*.shop.example.org")
    made = [page_access(host="0.0.0.0", certificate=cert, key=key) for _ in range(2)]
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    given = page_access(host="0.0.0.0", certificate=cert, key=key, token_file=tmp_path / "token")

    assert made[0].token != made[1].token
    assert len(made[0].token) >= 40
    assert announcement(made[0], made[0].url(1)).endswith(
        f"https://shop.example.org:1/?token={made[0].token}"
    )
    assert TOKEN not in announcement(given, given.url(1))
    assert "*.shop.example.org" in given.names


@pytest.mark.parametrize(
    "text", ["", "short", "has a blank in it and is long", "ünïcödé-of-more-than-20"]
)
def test_a_token_that_can_be_guessed_is_refused(tmp_path, text):
    """The hint makes a good one."""
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigError, match="token"):
        page_access(token_file=tmp_path / "token")


def test_files_that_are_no_certificate_are_refused(tmp_path):
    """Also one without the other, and a key of another certificate."""
    cert, key = certificate(tmp_path)
    other = certificate(tmp_path.parent)[1]
    for files in ((cert, None), (None, key), (key, cert), (cert, other), (cert, tmp_path / "none")):
        with pytest.raises(ConfigError):
            page_access(certificate=files[0], key=files[1])


def test_nothing_but_health_is_told_without_the_token(client):
    """Pages, JSON, styles and events; programs are told how to send it."""
    for path in (
        "/",
        "/tables",
        "/api/v1/pipelines",
        "/api/v1/events",
        "/static/page.css",
        "/none",
    ):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
    assert "bearer token" in client.get("/api/v1/pipelines").json()["error"]
    assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200


def test_metrics_are_for_those_who_may_open_the_page(view):
    """With its token, under its names, and for no page of another server."""
    jobs = [job(read_batch(7, source_of(*SPLITS)))]
    app = application(view, GUARDED, registry=metrics_registry(lambda: jobs))
    client = TestClient(app, base_url="http://127.0.0.1")
    given = {"Authorization": f"Bearer {TOKEN}"}

    assert client.get("/metrics").status_code == 401
    found = client.get("/metrics", headers=given)
    assert 'penstock_lag_records{pipeline="shop/totals",table="orders"} 70.0' in found.text
    assert found.headers["content-type"].startswith("text/plain")
    assert client.get("/metrics", headers=given | {"Host": "other.example"}).status_code == 400
    cross = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert client.get("/metrics", headers=given | cross).status_code == 403


def test_a_page_of_what_others_run_has_no_metrics(client):
    """As of `penstock ui`: each process has its own."""
    given = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/metrics", headers=given).status_code == 404


@pytest.mark.parametrize("wrong", ["", TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "ü"])
def test_another_token_is_refused_wherever_it_stands(client, wrong):
    """In the header, the address and the cookie; the token itself is no cookie either."""
    sent = wrong.encode("latin-1").decode("latin-1")
    assert client.get("/", headers={"Authorization": b"Bearer " + sent.encode()}).status_code == 401
    assert client.get("/", params={"token": wrong}).status_code == 401
    for cookie in (wrong, TOKEN):
        assert (
            client.get("/", headers={"Cookie": b"penstock=" + cookie.encode()}).status_code == 401
        )


def test_a_program_sends_the_token_as_a_bearer(client):
    """No cookie comes of it."""
    answer = client.get("/api/v1/pipelines", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.json()) == (200, [])
    assert "set-cookie" not in answer.headers


def test_a_browser_gets_a_cookie_for_the_token_and_an_address_without_it(client):
    """No script reads the cookie, no other site sends it, and it is not the token."""
    answer = client.get("/tables", params={"token": TOKEN, "x": "1"})

    assert (answer.status_code, answer.headers["location"]) == (303, "/tables?x=1")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/tables").status_code == 200  # the client keeps the cookie


def test_an_address_with_the_token_leads_to_no_other_server(client):
    """Two slashes would begin the name of one."""
    answer = client.get("http://127.0.0.1//evil.example/x", params={"token": TOKEN})
    assert answer.headers["location"].startswith("/evil.example")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8090", 200),
        ("LOCALHOST", 200),
        ("[::1]:8090", 200),
        ("shop.example.org:1", 200),
        ("a.lab.example.org", 200),
        ("lab.example.org", 400),
        ("a.b.lab.example.org", 400),
        ("rebound.example", 400),
        ("127.0.0.1.rebound.example", 400),
        ("", 400),
    ],
)
def test_a_request_must_name_the_server(view, host, status):
    """Its own names, those of its certificate, and the machine's."""
    names = ("shop.example.org", "*.lab.example.org", *PageAccess().names)
    client = TestClient(application(view, PageAccess(names=names)))
    assert client.get("/tables", headers={"Host": host}).status_code == status


def test_a_server_speaks_tls_and_asks_for_the_token(view, tmp_path):
    """On a real socket; the cookie is sent by TLS only."""
    cert, key = certificate(tmp_path, "localhost")
    (tmp_path / "token").write_text(TOKEN)
    access = page_access(certificate=cert, key=key, token_file=tmp_path / "token")
    trust = ssl.create_default_context(cafile=str(cert))
    with serving_pages(view, access, port=0) as url:
        asked = Request(f"{url}api/v1/tables", headers={"Authorization": f"Bearer {TOKEN}"})
        assert json.load(urlopen(asked, context=trust)) == []
        with pytest.raises(HTTPError, match="401"):
            urlopen(url, context=trust)
        assert url.startswith("https://127.0.0.1:")
    client = TestClient(
        application(view, access), base_url="https://localhost", follow_redirects=False
    )
    given = client.get("/", params={"token": TOKEN}).headers["set-cookie"]
    assert given.startswith("__Host-penstock=")
    assert "Secure" in given
