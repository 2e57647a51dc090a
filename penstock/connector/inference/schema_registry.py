"""Infer a table from a subject of a schema registry (Confluent's REST interface): its type, schema and references."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http.client import HTTPMessage
from typing import IO, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from penstock.catalog.errors import (
    BrokerUnavailableError,
    DefinitionError,
    OptionError,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn
from penstock.catalog.options.redaction import redact
from penstock.connector.inference.inferred_table import PROPOSAL, InferredColumn, InferredTable
from penstock.connector.inference.location import DELTA, KAFKA, Subject
from penstock.connector.inference.schema_types import avro_columns, schema_columns

TIMEOUT_S = 10.0
MOST_BYTES = 16 << 20
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_REFUSED = (401, 403)
_MOST_REFERENCES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A version of a subject. `kind` is AVRO, JSON or PROTOBUF; `references` are the schemas that it names."""

    subject: str
    version: int
    kind: str
    schema: str
    references: tuple[str, ...] = ()


def read_subject(requested: Subject) -> RegisteredSchema:
    """Read a version of a subject; blocks up to TIMEOUT_S a request.

    Raises UnknownObjectError for a subject or version that is not there, OptionError for a log-in that is refused,
    BrokerUnavailableError where no server answers.
    """
    answer = _version(requested, requested.subject, requested.version)
    return RegisteredSchema(
        subject=requested.subject,
        version=int(answer["version"]),
        kind=str(answer.get("schemaType", "AVRO")).upper(),
        schema=str(answer["schema"]),
        references=tuple(_references(requested, answer, set())),
    )


def _references(requested: Subject, answer: Any, seen: set[tuple[str, str]]) -> list[str]:
    """Return the schemas that one names, those that they name before them."""
    found: list[str] = []
    for each in answer.get("references", ()):
        key = (str(each["subject"]), str(each["version"]))
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > _MOST_REFERENCES:
            raise DefinitionError(
                f"subject '{requested.subject}' names more than {_MOST_REFERENCES} other schemas"
            )
        named = _version(requested, *key)
        found += [*_references(requested, named, seen), str(named["schema"])]
    return found


def _version(requested: Subject, subject: str, version: str) -> Any:
    path = f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"
    answer = _ask(requested, path)
    if answer is None:
        names = _ask(requested, "/subjects") or []
        if subject in names:
            raise UnknownObjectError(
                f"subject '{subject}' at {requested.shown} has no version {version}",
                hint="leave /versions/... out for the latest",
            )
        raise UnknownObjectError(
            f"the schema registry at {requested.shown} has no subject '{subject}'",
            hint=did_you_mean(subject, names)
            or (f"subjects are: {', '.join(names[:10])}" if names else "it has no subject at all"),
        )
    return answer


def _ask(requested: Subject, path: str) -> Any:
    """Get a document; None where there is none."""
    parts = urlsplit(requested.url)
    user, _, host = parts.netloc.rpartition("@")
    address = parts._replace(netloc=host, path=parts.path.rstrip("/") + path).geturl()
    request = urllib.request.Request(address, headers={"Accept": _ACCEPT})  # noqa: S310  http or https, by parse_location
    if user:
        token = base64.b64encode(unquote(user).encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
            return json.loads(answer.read(MOST_BYTES))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 404:
            return None
        if error.code in _REFUSED:
            raise OptionError(
                f"the schema registry at {requested.shown} refuses access: {error.code} {error.reason}",
                hint="write registry+https://user:password@host/subjects/NAME, and mind what the user may read",
            ) from None
        raise _unavailable(requested, f"{error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        raise _unavailable(requested, str(getattr(error, "reason", error))) from error


class _SameOrigin(urllib.request.HTTPRedirectHandler):
    """Follows redirects that disclose the log-in to no other server, and nothing over plain HTTP."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request that follows. Raises OptionError where it may not be made."""
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        known = req.has_header("Authorization") and _origin(before) != _origin(after)
        if known or after.scheme not in {before.scheme, "https"}:
            raise OptionError(
                f"the schema registry at {before.hostname} sends its callers to "
                f"{after.scheme}://{after.hostname}, "
                + ("which would get the log-in" if known else "where others can listen in"),
                hint="write that address, if it is the right one",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


_OPENER = urllib.request.build_opener(_SameOrigin)


def _unavailable(requested: Subject, reason: str) -> BrokerUnavailableError:
    return BrokerUnavailableError(
        f"the schema registry at {requested.shown} does not answer as one: {reason}",
        hint="does it run, and is the address right? Try curl -s ADDRESS/subjects",
    )


FRAMED = (
    "Records that a registry's serializer wrote begin with five bytes that are not JSON, and 'json' refuses them. "
    "`penstock catalog infer kafka://HOST/TOPIC` reads some, and proposes an event time too."
)
_ENDINGS = ("-value", "-key")


def topic_of(subject: str) -> str:
    """Return the topic of a subject by Confluent's TopicNameStrategy: `orders-value` is of `orders`."""
    for ending in _ENDINGS:
        if subject.endswith(ending) and len(subject) > len(ending):
            return subject.removesuffix(ending)
    return subject


def infer_subject_table(
    found: RegisteredSchema, *, name: str, shown: str, properties: Mapping[str, str]
) -> InferredTable:
    """Infer a table of a schema: a Kafka table for JSON; a Delta table of the rows for Avro, which no format reads.

    `properties` are those of a Kafka client, `shown` the registry's address. Raises UnsupportedError for Protobuf,
    DefinitionError for a schema without columns.
    """
    origin = (
        f"subject '{found.subject}', version {found.version}, of the schema registry at {shown}"
    )
    match found.kind:
        case "JSON":
            return _of_json(found, name=name, origin=origin, properties=properties)
        case "AVRO":
            return _of_avro(found, name=name, origin=origin)
    raise UnsupportedError(
        f"{origin} is of the kind {found.kind}",
        hint="schemas of the kinds AVRO and JSON are understood",
    )


def _of_json(
    found: RegisteredSchema, *, name: str, origin: str, properties: Mapping[str, str]
) -> InferredTable:
    options = redact({f"properties.{key}": value for key, value in properties.items()})
    return InferredTable(
        name=name,
        columns=schema_columns(found.schema),
        options=(
            ("connector", KAFKA),
            ("topic", topic_of(found.subject)),
            *options.items(),
            ("scan.startup.mode", "earliest-offset"),
            ("format", "json"),
            ("json.timestamp-format.standard", "ISO-8601-WITH-OFFSET"),
        ),
        remarks=(
            f"From {origin}: a JSON schema.",
            PROPOSAL,
            "The topic is the one that the subject's name says.",
            FRAMED,
        ),
    )


def _of_avro(found: RegisteredSchema, *, name: str, origin: str) -> InferredTable:
    columns = tuple(map(_storable, avro_columns(found.schema, found.references)))
    return InferredTable(
        name=name,
        columns=columns,
        options=(("connector", DELTA), ("path", name)),
        remarks=(
            f"From {origin}: an Avro schema.",
            PROPOSAL,
            "No format reads Avro records yet: this is a Delta table for rows of this schema.",
            "The topic's records are read as they are with one BYTES column and 'format' = 'raw'.",
        ),
    )


def _storable(each: InferredColumn) -> InferredColumn:
    """Keep bytes of a fixed size as BYTES: the size says nothing to Spark."""
    column = each.column
    if isinstance(column, PhysicalColumn) and isinstance(column.type, t.BinaryType):
        kind = t.VarBinaryType(length=t.MAX_LENGTH, nullable=column.type.nullable)
        return replace(each, column=replace(column, type=kind))
    return each
