"""Tables of a schema registry's subjects, from a registry that a test runs itself."""

from __future__ import annotations

import io
import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from penstock.catalog.errors import (
    BrokerUnavailableError,
    DefinitionError,
    OptionError,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.connector.inference.location import Subject
from penstock.connector.inference.schema_registry import (
    _SameOrigin,
    infer_subject_table,
    read_subject,
)
from penstock.connector.registry import connector_of

MONEY = {
    "type": "record",
    "name": "Money",
    "namespace": "shop",
    "fields": [
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        },
        {"name": "currency", "type": {"type": "enum", "name": "Currency", "symbols": ["EUR"]}},
    ],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long", "doc": "the order's number"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": ["null", "shop.Money"]},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "notes", "type": {"type": "map", "values": "int"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 16}},
        {"name": "either", "type": ["int", "string"]},
    ],
}
JSON_ORDER = {
    "type": "object",
    "required": ["id", "at", "maybe"],
    "properties": {
        "id": {"type": "integer", "description": "the order's number"},
        "small": {"type": "integer", "minimum": 0, "maximum": 100},
        "at": {"type": "string", "format": "date-time"},
        "maybe": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "day": {"type": ["string", "null"], "format": "date"},
        "address": {"$ref": "#/definitions/address"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "additionalProperties": {"type": "boolean"}},
        },
        "loop": {"$ref": "#/properties/loop"},
    },
    "definitions": {
        "address": {
            "type": "object",
            "required": ["zip"],
            "properties": {"zip": {"type": "string"}},
        }
    },
}
SUBJECTS = {
    "money": {"version": 2, "schema": json.dumps(MONEY)},
    "orders-value": {
        "version": 7,
        "schema": json.dumps(ORDER),
        "references": [{"name": "shop.Money", "subject": "money", "version": 2}],
    },
    "json-value": {"version": 1, "schemaType": "JSON", "schema": json.dumps(JSON_ORDER)},
    "proto-value": {"version": 1, "schemaType": "PROTOBUF", "schema": "message M {}"},
    "single-value": {"version": 1, "schema": '"string"'},
}


class _Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        steps = [unquote(step) for step in self.path.strip("/").split("/")]
        found: object = None
        if self.headers.get("Authorization") != "Basic dTpwQHNz":  # u:p@ss
            self._answer(401, {})
            return
        if steps == ["subjects"]:
            found = list(SUBJECTS)
        elif len(steps) == 4 and steps[1] in SUBJECTS:
            version = SUBJECTS[steps[1]]["version"]
            found = SUBJECTS[steps[1]] if steps[3] in {"latest", str(version)} else None
        self._answer(404 if found is None else 200, found)

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """The address of a registry with a log-in."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://u:p%40ss@127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def inferred(url, subject, tmp_path):
    """Infer a table, and see that its connector takes it."""
    place = Subject(url=url, subject=subject)
    made = infer_subject_table(
        read_subject(place),
        name="orders",
        shown=place.shown,
        properties={"bootstrap.servers": "b:9092"},
    )
    table = made.table("default_catalog", "default_database")
    connector_of(table, project=tmp_path).check(table)
    return {each.column.name: str(each.column.type) for each in made.columns}, made


def test_an_avro_schema_gives_the_columns_of_its_record(registry, tmp_path):
    """Named types of other subjects, unions, logical types; NOT NULL where there is no null."""
    columns, made = inferred(registry, "orders-value", tmp_path)

    assert columns == {
        "id": "BIGINT NOT NULL",
        "at": "TIMESTAMP_LTZ(3) NOT NULL",
        "local": "TIMESTAMP(6) NOT NULL",
        "price": "ROW<`amount` DECIMAL(12, 2) NOT NULL, `currency` STRING NOT NULL>",
        "tags": "ARRAY<STRING> NOT NULL",
        "notes": "MAP<STRING NOT NULL, INT NOT NULL> NOT NULL",
        "hash": "BYTES NOT NULL",
        "either": "ROW<`member0` INT, `member1` STRING> NOT NULL",
    }
    assert made.columns[0].column.comment == "the order's number"
    assert "version 7" in made.remarks[0]


def test_a_json_schema_gives_a_kafka_table(registry, tmp_path):
    """What it requires, and does not let be null, is NOT NULL; what leads nowhere is a text."""
    columns, made = inferred(registry, "json-value", tmp_path)

    assert columns == {
        "id": "BIGINT NOT NULL",
        "small": "INT",
        "at": "TIMESTAMP_LTZ(3) NOT NULL",
        "maybe": "DOUBLE",
        "day": "DATE",
        "address": "ROW<`zip` STRING NOT NULL>",
        "lines": "ARRAY<MAP<STRING NOT NULL, BOOLEAN NOT NULL> NOT NULL>",
        "loop": "STRING",
    }
    assert dict(made.options)["topic"] == "json"


@pytest.mark.parametrize(
    ("subject", "kind", "message"),
    [
        ("order-value", UnknownObjectError, "did you mean 'orders-value'"),
        ("proto-value", UnsupportedError, "AVRO and JSON"),
        ("single-value", DefinitionError, "'format' = 'raw'"),
    ],
)
def test_a_subject_without_a_table_is_refused_with_what_to_do(
    registry, tmp_path, subject, kind, message
):
    """Missing, of a kind that is not understood, or not of a record."""
    with pytest.raises(kind) as error:
        inferred(registry, subject, tmp_path)

    assert message in (error.value.hint or "")


def test_a_version_that_is_not_there_is_told_apart_from_the_subject(registry):
    """The subject is there."""
    place = Subject(url=registry, subject="money", version="9")
    with pytest.raises(UnknownObjectError, match="has no version 9"):
        read_subject(place)


def test_a_refused_log_in_and_nobody_there_are_errors_of_their_own(registry):
    """Without the password."""
    with pytest.raises(OptionError, match="refuses access: 401") as refused:
        read_subject(Subject(url=registry.replace("p%40ss", "wrong"), subject="money"))
    with pytest.raises(BrokerUnavailableError, match="does not answer"):
        read_subject(Subject(url="http://127.0.0.1:1", subject="money"))

    assert "wrong" not in refused.value.message


def test_a_schema_that_holds_itself_is_refused(tmp_path):
    """SQL has no such type."""
    from penstock.connector.inference.schema_types import avro_columns

    tree = {"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]}
    with pytest.raises(UnsupportedError, match="inside of itself"):
        avro_columns(json.dumps(tree))


class _Elsewhere(BaseHTTPRequestHandler):
    """Sends every caller to `target`, and keeps who came with a log-in."""

    target = ""
    seen: list[str | None]

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        self.send_response(302)
        self.send_header("Location", self.target)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def redirecting(target: str) -> Iterator[tuple[str, list[str | None]]]:
    """A server that sends its callers to a target: its address, and the log-ins that it saw."""
    seen: list[str | None] = []
    handler = type("Handler", (_Elsewhere,), {"target": target, "seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}", seen
        finally:
            server.shutdown()
            thread.join()


def asked(url: str) -> None:
    """Ask a registry for a subject."""
    read_subject(Subject(url=url, subject="orders-value", version="latest"))


def test_a_log_in_does_not_follow_a_redirect_to_another_server() -> None:
    """Another port is another server."""
    with (
        redirecting("http://127.0.0.1:1/") as (other, stolen),
        redirecting(f"http://{other}/subjects") as (first, seen),
    ):
        with pytest.raises(OptionError, match="which would get the log-in"):
            asked(f"http://u:s3cret@{first}")
        assert seen
        assert stolen == []
        with pytest.raises(BrokerUnavailableError):
            asked(f"http://{first}")  # nobody's log-in: followed, to where nobody answers
        assert stolen == [None]


@pytest.mark.parametrize(
    ("before", "after", "login", "follows"),
    [
        ("https://a/x", "https://a/y", True, True),
        ("https://a/x", "https://a:443/y", True, True),
        ("http://a/x", "https://a/y", True, False),
        ("https://a/x", "http://a/y", False, False),
        ("https://a/x", "https://b/y", True, False),
        ("https://a/x", "https://a:8443/y", True, False),
        ("http://a/x", "https://b/y", False, True),
        ("http://a/x", "ftp://a/y", False, False),
        ("https://a/x", "https://a@b/y", True, False),
    ],
)
def test_redirects_keep_to_the_server_and_to_tls(
    before: str, after: str, login: bool, follows: bool
) -> None:
    """With a log-in scheme, host and port stay; without one TLS is not given up."""
    request = urllib.request.Request(before, headers={"Authorization": "Basic x"} if login else {})

    def step() -> object:
        return _SameOrigin().redirect_request(request, io.BytesIO(), 302, "", HTTPMessage(), after)

    if follows:
        assert step() is not None
    else:
        with pytest.raises(OptionError):
            step()
