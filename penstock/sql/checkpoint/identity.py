"""The owner of a checkpoint, and the directory that its names give: names of pipeline and query, the statement's text.

Different names give different directories.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.catalog.errors import PenstockError, StateMismatchError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import DEFAULT_DATABASE
from penstock.catalog.options.redaction import redact
from penstock.connector.urls import is_url
from penstock.sql.checkpoint.fingerprint import START_OVER_HINTS
from penstock.sql.checkpoint.reader import damaged_error
from penstock.sql.dialect import parse_query, table_options, to_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.sql.checkpoint.reader import CheckpointFiles
    from penstock.sql.statements.dml import InsertInto


_SIMPLE = re.compile(r"[a-z0-9_-][a-z0-9_.-]*", re.ASCII)

_LONGEST_SIMPLE = 150

_LONGEST_SLUG = 40

_DIGITS = 32

_DIGEST = re.compile(rf"(?:^|-)[0-9a-f]{{{_DIGITS}}}$")

_ASIDE = ".set-aside-"

_RESERVED = frozenset({"dead-letter-topics"})
"""What lies beside the pipelines in the folder of checkpoints (`sql/runner/dead_letters.py`)."""


def checkpoint_root(base: str, project: Path) -> str:
    """Return the folder of all checkpoints; a base without a scheme is relative to the project."""
    return (base if is_url(base) else str(project / base)).rstrip("/")


def checkpoint_location(base: str, project: Path, pipeline: str, sink: str) -> str:
    """Return `<base>/<pipeline>/<sink>`; a base without a scheme is relative to the project."""
    return f"{checkpoint_root(base, project)}/{folder_name(pipeline)}/{folder_name(sink)}"


def folder_name(name: str) -> str:
    """Write a name as a folder's: another name has another folder, also where letter case does not count.

    A short name of lower-case ASCII letters, digits, `_`, `-` and `.` is its own folder. Any other is its readable
    part, and 128 bits of its SHA-256; no name of the first kind ends so. Neither leaves its parent folder.
    """
    if _is_simple(name):
        return name
    slug = re.sub(r"[^a-z0-9_-]+", "_", name.lower(), flags=re.ASCII)[:_LONGEST_SLUG]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{slug or '_'}-{digest}"


def old_folder_name(name: str) -> str | None:
    """Write a name as earlier versions did, where several names had one folder; None where it led elsewhere."""
    old = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
    return None if old in {"", ".", ".."} else old


def _is_simple(name: str) -> bool:
    return (
        _SIMPLE.fullmatch(name) is not None
        and len(name) <= _LONGEST_SIMPLE
        and not name.endswith(".")  # some file systems leave it out
        and _DIGEST.search(name) is None
        and _ASIDE not in name
        and name not in _RESERVED
    )


def refresh_name(table: Identifier) -> str:
    """Name the query by its table; tables of other databases are distinguished."""
    here = table.database == DEFAULT_DATABASE
    return table.name if here else f"{table.database}.{table.name}"


IDENTITY = "penstock-identity"
"""Folder in a checkpoint directory, beside Spark's own."""

VERSION = 1

_ENDING = ".json"

_BETWEEN = ";\n"

_PARTS = re.compile(
    r"(?P<into>INSERT INTO .+?) (?P<query>\(*(?:SELECT|WITH|VALUES)\b.*?)(?P<hints>(?:\n\S+ \{.*\})*)",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointIdentity:
    """`pipeline` and `query` are raw names, `table` is the target's full name (of a set: the name of its query).

    `statements` are the normalised texts of the INSERTs, each with the name of its sink in the query. `file` is their
    file, relative to the project; None without one. `target` is the project's target that the query runs for, empty
    for the default one; None where the project has none, or the target has its checkpoints elsewhere, and in what
    earlier versions wrote.
    """

    pipeline: str
    query: str
    table: str
    statements: tuple[tuple[str, str], ...]
    file: str | None = None
    target: str | None = None

    @property
    def text(self) -> str:
        """What the query is known by: its statements, in any order."""
        return joined_text([text for _, text in self.statements])

    def to_text(self) -> str:
        """Write it as JSON, in ASCII."""
        value = asdict(self)
        if self.target is None:
            del value["target"]  # as earlier versions read it
        return json.dumps({"version": VERSION} | value, indent=2)


def joined_text(texts: Sequence[str]) -> str:
    """Write statements as one text that does not depend on their order."""
    return _BETWEEN.join(sorted(texts))


def same_text(one: str | None, other: str | None) -> bool:
    """Return whether texts are of the same statements, also where another version wrote one of them in other words."""
    if one is None or other is None or one == other:
        return one == other
    return _rewritten(one) == _rewritten(other)


def _rewritten(text: str) -> str:
    return joined_text([_rewritten_insert(each) for each in text.split(_BETWEEN)])


def _rewritten_insert(text: str) -> str:
    """Read an INSERT and write it as this version does; what cannot be read stays as it is."""
    found = _PARTS.fullmatch(text)
    if found is None:
        return text
    try:
        query = to_text(parse_query(found["query"]))
    except (SqlglotError, PenstockError, AssertionError, LookupError, RecursionError, ValueError):
        return text
    return f"{found['into']} {query}{found['hints']}"


def statement_text(statement: InsertInto) -> str:
    """Write an INSERT without comments and white space of its own; what its hints hold is written without secrets."""
    columns = f" ({', '.join(statement.columns)})" if statement.columns else ""
    partition = ", ".join(f"{name} = {value}" for name, value in statement.partition)
    into = f"INSERT INTO {statement.target}{columns}"
    query = statement.query.copy()
    hints = []
    for table in query.find_all(exp.Table):
        if options := redact(table_options(table)):
            hints.append(f"{table.name} {json.dumps(options, sort_keys=True)}")
        table.set("hints", None)
    where = f" PARTITION ({partition})" if partition else ""
    return "\n".join((f"{into}{where} {to_text(query)}", *hints))


def identity_path(entry: int) -> str:
    """Return the path of an entry inside the checkpoint."""
    return f"{IDENTITY}/{entry}{_ENDING}"


def next_entry(files: CheckpointFiles) -> int:
    """Return the number that the next entry has."""
    return max(_entries(files), default=-1) + 1


def read_identity(files: CheckpointFiles) -> CheckpointIdentity | None:
    """Read the last entry; None where there is none. Raises StateMismatchError for a damaged one."""
    last = max(_entries(files), default=None)
    if last is None:
        return None
    path = identity_path(last)
    try:
        value = json.loads(files.text(path) or "")
        version = value.pop("version")
        if version == VERSION:
            statements = tuple((str(sink), str(text)) for sink, text in value.pop("statements"))
            return CheckpointIdentity(statements=statements, **value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged_error(files.location, path, "does not hold what it should") from error
    raise StateMismatchError(
        f"{files.location}/{path} was written by another version of Penstock ({version!r})",
        hint="run that version; or " + "; or ".join(START_OVER_HINTS),
    )


def check_identity(files: CheckpointFiles, wanted: CheckpointIdentity) -> None:
    """Check that a checkpoint is of the pipeline and query of these names, and of this target.

    Raises StateMismatchError.
    """
    found = read_identity(files)
    if found is not None:
        check_target(found, wanted, files.location)
    if found is None or (found.pipeline, found.query) == (wanted.pipeline, wanted.query):
        return
    raise StateMismatchError(
        f"the checkpoint {files.location} is of the query {found.query!r} of the pipeline {found.pipeline!r}, not of "
        f"{wanted.query!r} of {wanted.pipeline!r}",
        hint="SET 'pipeline.name' = '...' to the name that it has, or to one that no other pipeline has",
    )


def check_target(found: CheckpointIdentity, wanted: CheckpointIdentity, location: str) -> None:
    """Check that the checkpoint is no other target's: each has rows, tables and perhaps leases of its own.

    One without a target is of the default one, or from before this was recorded. Raises StateMismatchError.
    """
    if wanted.target is None or wanted.target == (found.target or ""):
        return
    known = f"the target {found.target!r}" if found.target else "the default target"
    mine = f"of {wanted.target!r}" if wanted.target else "of the default target"
    section = f"[targets.{wanted.target}.settings]" if wanted.target else "[settings]"
    raise StateMismatchError(
        f"the checkpoint {location} of {wanted.query!r} is that of {known}, and this is a run {mine}",
        hint=f'say in penstock.toml where this target has its checkpoints: "execution.checkpointing.dir" in {section}; '
        "one that names the folder that it shared resumes from there",
    )


def check_untaken(
    found: CheckpointIdentity | None, wanted: CheckpointIdentity, before: str | None, location: str
) -> None:
    """Check that a checkpoint holds what it held when it was chosen; `before` is a text that it had then.

    It is chosen before its lease is held: another INSERT may have begun it, and ended, in between. Raises
    StateMismatchError.
    """
    if found is None or same_text(found.text, before) or same_text(found.text, wanted.text):
        return
    raise StateMismatchError(
        f"another INSERT has taken the checkpoint {location} of {wanted.query!r} meanwhile",
        hint="run it again",
    )


def _entries(files: CheckpointFiles) -> list[int]:
    stems = [name.removesuffix(_ENDING) for name in files.names(IDENTITY) if name.endswith(_ENDING)]
    return [int(stem) for stem in stems if stem.isdecimal()]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLocation:
    """`checkpoint` is its checkpoint's directory, `canonical` the one that its names have.

    They differ for a checkpoint that an earlier version put elsewhere. `before`: the statement in the checkpoint,
    where it is another one.
    """

    checkpoint: str
    canonical: str
    identity: CheckpointIdentity
    before: str | None = None

    @property
    def job(self) -> str:
        """The query's name among all pipelines: what one runner at a time may hold."""
        return f"{self.identity.pipeline}/{self.identity.query}"

    @property
    def leases(self) -> tuple[str, ...]:
        """What is held while it runs: its name; and its directory where that may be reached by another name."""
        if self.checkpoint == self.canonical:
            return (self.job,)
        return tuple(dict.fromkeys((self.job, "/".join(self.checkpoint.rsplit("/", 2)[1:]))))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedQuery:
    """A query by its name and checkpoint, which `location` tells."""

    location: QueryLocation

    @property
    def pipeline(self) -> str:
        """The name that one runner at a time may hold."""
        return self.location.job

    @property
    def leases(self) -> tuple[str, ...]:
        """The leases that are held while it runs."""
        return self.location.leases

    @property
    def checkpoint(self) -> str:
        """Its checkpoint directory."""
        return self.location.checkpoint
