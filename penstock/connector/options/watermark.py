"""The watermark options that every table read by splits takes (FLIP-296), and their checks.

`scan.watermark.max-future` and `scan.watermark.on-future` are Penstock's own: one record with a clock years ahead
would move the watermark there, and every row behind it would be late.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.catalog.errors import OptionError
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import DURATION, STRING, Option, Resolved, enum_type, resolve
from penstock.connector.options.bad_records import BAD_RECORDS, DEAD_LETTER_PATH, BadRecordPolicy
from penstock.connector.source.alignment import Alignment

DAY_MS = 86_400_000


class OnFuture(StrEnum):
    """What becomes of a record whose watermark is too far in the future."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


EMIT_STRATEGY = Option(
    key="scan.watermark.emit.strategy",
    type=enum_type("on-periodic", "on-event"),
    default="on-periodic",
    doc="accepted without effect: a watermark comes with every batch",
    flink="when watermarks are emitted",
)
ALIGNMENT_GROUP: Option[str | None] = Option(
    key="scan.watermark.alignment.group",
    type=STRING,
    default=None,
    doc="name that tables share which are to advance together",
)
ALIGNMENT_DRIFT: Option[int | None] = Option(
    key="scan.watermark.alignment.max-drift",
    type=DURATION,
    default=None,
    doc="how far a split may run ahead of the slowest of its group",
)
ALIGNMENT_INTERVAL = Option(
    key="scan.watermark.alignment.update-interval",
    type=DURATION,
    default=1000,
    doc="how often limits change, where tables are read record by record (penstock tail)",
)
IDLE_TIMEOUT: Option[int | None] = Option(
    key="scan.watermark.idle-timeout",
    type=DURATION,
    default=None,
    doc="silence after which a split no longer counts",
)
MAX_FUTURE = Option(
    key="scan.watermark.max-future",
    type=DURATION,
    default=DAY_MS,
    doc="how far ahead of the clock a record's watermark may be before the record counts as bad; 0 is no limit",
    flink=None,
)
ON_FUTURE = Option(
    key="scan.watermark.on-future",
    type=enum_type(*(choice.value for choice in OnFuture)),
    default=OnFuture.FAIL.value,
    doc="what becomes of a record too far in the future: fail, skip or dead-letter",
    flink=None,
)
SCAN_DEAD_LETTER_PATH: Option[str | None] = Option(
    key="scan.dead-letter.path",
    type=STRING,
    default=None,
    doc="deprecated, in place of 'bad-records' = 'dead-letter' and its 'dead-letter.path': directory for JSON lines of "
    "records that are too far in the future, a path relative to the project or a URL",
    flink=None,
)
WATERMARK_OPTIONS: tuple[Option[Any], ...] = (
    EMIT_STRATEGY,
    ALIGNMENT_GROUP,
    ALIGNMENT_DRIFT,
    ALIGNMENT_INTERVAL,
    IDLE_TIMEOUT,
    MAX_FUTURE,
    ON_FUTURE,
    SCAN_DEAD_LETTER_PATH,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkSettings:
    """What the options say. Durations in ms; `idle_timeout_ms` and `max_future_ms` are None where switched off.

    `dead_letter_path` (deprecated) may be set when `on_future` is DEAD_LETTER; where it is not, such records go where
    other bad records go.
    """

    alignment: Alignment | None = None
    idle_timeout_ms: int | None = None
    max_future_ms: int | None = DAY_MS
    on_future: OnFuture = OnFuture.FAIL
    dead_letter_path: str | None = None


def read_watermark_settings(resolved: Resolved, *, owner: str, connector: str) -> WatermarkSettings:
    """Check the watermark options of a table. Raises OptionError; the pair's message is Flink's (FactoryUtil)."""
    on_future = OnFuture(resolved.get(ON_FUTURE))
    path = resolved.get(SCAN_DEAD_LETTER_PATH)
    keeps_bad = resolved.get(BAD_RECORDS) == BadRecordPolicy.DEAD_LETTER
    if on_future is OnFuture.DEAD_LETTER and path is None and not keeps_bad:
        raise OptionError(
            f"{owner}: '{ON_FUTURE.key}' = 'dead-letter' needs '{BAD_RECORDS.key}' = 'dead-letter', which keeps both "
            "kinds of bad records together",
            hint=DEAD_LETTER_PATH.doc,
        )
    return WatermarkSettings(
        alignment=_alignment(resolved, owner, connector),
        idle_timeout_ms=resolved.get(IDLE_TIMEOUT) or None,
        max_future_ms=resolved.get(MAX_FUTURE) or None,
        on_future=on_future,
        dead_letter_path=path if on_future is OnFuture.DEAD_LETTER else None,
    )


def on_future(table: Table) -> OnFuture:
    """Return what becomes of the records of the future of a table that its connector has checked."""
    options = {key: value for key, value in table.options if key == ON_FUTURE.key}
    return OnFuture(
        resolve(options, (ON_FUTURE,), owner=f"table {table.identifier}").get(ON_FUTURE)
    )


def _alignment(resolved: Resolved, owner: str, connector: str) -> Alignment | None:
    group, drift_ms = resolved.get(ALIGNMENT_GROUP), resolved.get(ALIGNMENT_DRIFT)
    if group is None or drift_ms is None:
        if any(map(resolved.is_set, (ALIGNMENT_GROUP, ALIGNMENT_DRIFT, ALIGNMENT_INTERVAL))):
            raise OptionError(
                f"{owner}: error configuring watermark for '{connector}': '{ALIGNMENT_GROUP.key}' and "
                f"'{ALIGNMENT_DRIFT.key}' must be set when configuring watermark alignment"
            )
        return None
    interval_ms = resolved.get(ALIGNMENT_INTERVAL)
    for option, value in ((ALIGNMENT_DRIFT, drift_ms), (ALIGNMENT_INTERVAL, interval_ms)):
        if value <= 0:
            raise OptionError(f"{owner}: '{option.key}' must be more than nothing")
    if not group.strip():
        raise OptionError(f"{owner}: '{ALIGNMENT_GROUP.key}' is empty")
    return Alignment(group=group, max_drift_ms=drift_ms, update_interval_ms=interval_ms)
