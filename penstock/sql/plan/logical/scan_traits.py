"""Properties of scans and of the operators that depend on them: order of arrival, ties, retried lookups."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.catalog.errors import Span
from penstock.connector.lookup.contract import MissRetry

__all__ = ["Arrival", "LookupRetry", "TieBreak"]


class Arrival(StrEnum):
    """The known arrival order of a table's rows."""

    OPEN = "open"
    """Not requested, as in versions of Penstock whose checkpoints still resume."""
    BATCH = "batch"
    """The micro-batch of a row's arrival."""
    RECORD = "record"
    """The order of any two rows, by the column ARRIVED (`connector/scan.py`)."""


class TieBreak(StrEnum):
    """Which of rows with equal order comes first."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupRetry:
    """How to retry keys without rows; `span` is the place of the hint."""

    retry: MissRetry
    span: Span | None
