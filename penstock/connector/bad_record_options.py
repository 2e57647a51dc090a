"""The options that say what becomes of records that cannot be decoded: fail, skip, or keep them as dead letters.

All are Penstock's own. Flink's `<format>.ignore-parse-errors` keeps its meaning beside them: it makes malformed
fields NULL, so the two are not set together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.catalog.errors import OptionError, UnsupportedError
from penstock.catalog.options import LONG, STRING, Option, OptionType, Resolved, enum_type, resolve
from penstock.catalog.table import Table

__all__ = [
    "BAD_RECORDS",
    "BAD_RECORD_OPTIONS",
    "BadRecordPolicy",
    "BadRecordSettings",
    "BesideCheckpoint",
    "DeltaPath",
    "Outlet",
    "bad_record_settings",
    "check_against_format",
    "read_bad_record_settings",
]

_RATIO = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(%?)\s*\Z")


class BadRecordPolicy(StrEnum):
    """What becomes of a record that cannot be decoded.

    FAIL: it fails the query. SKIP: it is left out and counted. DEAD_LETTER: it is also kept, as it was.
    """

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideCheckpoint:
    """Dead letters go to the Delta table `dead-letters` in the checkpoint directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaPath:
    """Dead letters go to the Delta table at `path`: relative to the project, absolute, or a Hadoop URL."""

    path: str


Outlet = BesideCheckpoint | DeltaPath
"""Where dead letters go."""


def _ratio(text: str) -> float:
    found = _RATIO.match(text)
    if found is None:
        raise ValueError(text)
    ratio = float(found.group(1)) / (100 if found.group(2) else 1)
    if ratio > 1:
        raise ValueError(text)
    return ratio


BAD_RECORDS = Option(
    key="bad-records",
    type=enum_type(*(policy.value for policy in BadRecordPolicy)),
    default=BadRecordPolicy.FAIL.value,
    doc="what becomes of a record that cannot be decoded: fail, skip or dead-letter (Penstock's own option)",
)
MAX_RATIO = Option(
    key="bad-records.max-ratio",
    type=OptionType(name="a share such as '0.1' or '10%', at most 1", parse=_ratio),
    default=0.1,
    doc="the share of a batch's records above which bad ones stop the query, in batches of 1,000 records and more; "
    "1 is no limit (Penstock's own option)",
)
MAX_ROWS: Option[int | None] = Option(
    key="bad-records.max-rows",
    type=LONG,
    default=None,
    doc="the number of bad records in a batch above which they stop the query (Penstock's own option)",
)
LETTER_PATH: Option[str | None] = Option(
    key="dead-letter.path",
    type=STRING,
    default=None,
    doc="Delta table for dead letters: a path relative to the project, or a URL; default 'dead-letters' in the "
    "query's checkpoint directory (Penstock's own option)",
)
LETTER_TOPIC: Option[str | None] = Option(
    key="dead-letter.topic",
    type=STRING,
    default=None,
    doc="Kafka topic for dead letters, in place of a Delta table; not supported yet (Penstock's own option)",
)
BAD_RECORD_OPTIONS: tuple[Option[Any], ...] = (
    BAD_RECORDS,
    MAX_RATIO,
    MAX_ROWS,
    LETTER_PATH,
    LETTER_TOPIC,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecordSettings:
    """What the options say. `max_ratio` is a share of a batch's records, `max_rows` a number of them (None: any)."""

    policy: BadRecordPolicy = BadRecordPolicy.FAIL
    outlet: Outlet = BesideCheckpoint()
    max_ratio: float = 0.1
    max_rows: int | None = None

    @property
    def leaves_out(self) -> bool:
        """Whether bad records are left out, and the query goes on."""
        return self.policy is not BadRecordPolicy.FAIL

    @property
    def keeps(self) -> bool:
        """Whether bad records are kept as dead letters."""
        return self.policy is BadRecordPolicy.DEAD_LETTER


def read_bad_record_settings(resolved: Resolved, *, owner: str) -> BadRecordSettings:
    """Check the options of a table. Raises OptionError where they contradict each other."""
    policy = BadRecordPolicy(resolved.get(BAD_RECORDS))
    _check_needs(resolved, policy, owner)
    path, topic = resolved.get(LETTER_PATH), resolved.get(LETTER_TOPIC)
    if topic is not None:
        raise UnsupportedError(
            f"{owner}: '{LETTER_TOPIC.key}': dead letters cannot go to a Kafka topic yet",
            hint=f"leave it out, or name a Delta table by '{LETTER_PATH.key}'; `penstock dlq replay` gives its "
            "records to a topic",
        )
    if path is not None and not path.strip():
        raise OptionError(f"{owner}: option '{LETTER_PATH.key}' is empty", hint=LETTER_PATH.doc)
    max_rows = resolved.get(MAX_ROWS)
    if max_rows is not None and max_rows < 0:
        raise OptionError(f"{owner}: option '{MAX_ROWS.key}' must not be negative")
    return BadRecordSettings(
        policy=policy,
        outlet=BesideCheckpoint() if path is None else DeltaPath(path=path),
        max_ratio=resolved.get(MAX_RATIO),
        max_rows=max_rows,
    )


def bad_record_settings(table: Table) -> BadRecordSettings:
    """Read the options of a table that its connector has checked; tables of other kinds fail."""
    known = {option.key for option in BAD_RECORD_OPTIONS}
    options = {key: value for key, value in table.options if key in known}
    owner = f"table {table.identifier}"
    resolved = resolve(options, BAD_RECORD_OPTIONS, owner=owner)
    return read_bad_record_settings(resolved, owner=owner)


def check_against_format(resolved: Resolved, *, owner: str, format_skips: bool) -> None:
    """Refuse `bad-records` beside a format that leaves out bad records by itself. Raises OptionError."""
    if format_skips and resolved.is_set(BAD_RECORDS):
        raise OptionError(
            f"{owner}: '{BAD_RECORDS.key}' = '{resolved.get(BAD_RECORDS)}' contradicts 'ignore-parse-errors' = "
            "'true' of the format, which makes malformed fields NULL and leaves out malformed records by itself",
            hint="set one of the two",
        )


def _check_needs(resolved: Resolved, policy: BadRecordPolicy, owner: str) -> None:
    """Refuse options that would do nothing: somebody counts on them."""
    needed = {
        MAX_RATIO: "skip' or 'dead-letter",
        MAX_ROWS: "skip' or 'dead-letter",
        LETTER_PATH: "dead-letter",
        LETTER_TOPIC: "dead-letter",
    }
    for option, values in needed.items():
        if resolved.is_set(option) and policy not in values.split("' or '"):
            raise OptionError(
                f"{owner}: '{option.key}' needs '{BAD_RECORDS.key}' = '{values}', it is '{policy}'",
                hint=BAD_RECORDS.doc,
            )
