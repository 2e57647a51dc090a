"""What a location names: a topic, a subject of a schema registry, a Delta table, files. Text only; makes no request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.catalog.errors import OptionError, did_you_mean

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?!\\)")
_SUBJECT = re.compile(
    r"(?P<base>.*)/subjects/(?P<subject>[^/]+)(?:/versions/(?P<version>\w+))?/?\Z"
)
KAFKA, DELTA = "kafka", "delta"
"""Schemes of locations that are named as the connector of the table that is proposed."""

_SCHEMES = (KAFKA, "registry+http", "registry+https", DELTA)
_FILE_SCHEMES = ("file", "s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
_EXAMPLES = "kafka://host:9092/topic, registry+http://host:8081/subjects/orders-value, delta:/path or a path of files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """`kafka://host:port/topic`; `servers` is None where the location does not name them."""

    servers: str | None
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """`registry+http://host:8081/subjects/NAME[/versions/N]`. `url` may hold a user and a password."""

    url: str
    subject: str
    version: str = "latest"

    @property
    def shown(self) -> str:
        """The registry's address for messages, without a password."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLocation:
    """`delta:/path`, or a folder that holds a _delta_log."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLocation:
    """A file, a folder, or a folder and a pattern of the names in it, as in `data/*.json`."""

    path: str


Location = Topic | Subject | DeltaLocation | FileLocation


def parse_location(text: str, project: Path) -> Location:
    """Read a location; relative paths are of `project`. Raises OptionError."""
    scheme = _SCHEME.match(text)
    name = scheme[1].lower() if scheme is not None else ""
    if name == KAFKA:
        return _topic(text)
    if name in {"registry+http", "registry+https"}:
        return _subject(text)
    if name == DELTA:
        return DeltaLocation(path=text[len("delta:") :])
    if scheme is not None and name not in _FILE_SCHEMES:
        raise OptionError(
            f"a location of the kind {name!r} is not known",
            hint=did_you_mean(name, _SCHEMES) or f"write {_EXAMPLES}",
        )
    if scheme is None and (project / text / "_delta_log").is_dir():
        return DeltaLocation(path=text)
    return FileLocation(path=text)


def _topic(text: str) -> Topic:
    rest = text[len("kafka:") :].lstrip("/")
    servers, found, topic = rest.rpartition("/")
    topic = unquote(topic)
    if not topic:
        raise OptionError(f"{text!r} names no topic", hint="write kafka://host:9092/topic")
    return Topic(servers=servers if found and servers else None, topic=topic)


def _subject(text: str) -> Subject:
    found = _SUBJECT.match(text[len("registry+") :])
    if found is None:
        raise OptionError(
            f"{text!r} names no subject",
            hint="write registry+http://host:8081/subjects/NAME, and /versions/3 behind it for another than the latest",
        )
    return Subject(
        url=found["base"], subject=unquote(found["subject"]), version=found["version"] or "latest"
    )
