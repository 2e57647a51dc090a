"""The plan that a query was started with, kept in its checkpoint for people: operators, what runs each, what it writes.

No start reads it: `QueryFingerprint` decides about those. The status page shows it, also of a pipeline that is over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from penstock.catalog.errors import StateMismatchError
from penstock.sql.checkpoint.reader import CheckpointFiles

PLAN_FILE = "penstock-plan.json"

VERSION = 1


class Mechanism(StrEnum):
    """What runs an operator."""

    READING_TASKS = "reading tasks"
    TWO_PHASES = "spark, first phase in the reading tasks"
    SPARK = "spark"
    KEYED = "keyed operator"
    STAGE = "a stage without state"
    STAGE_OF_SPARK = "spark, several jobs a batch"
    OPEN = "decided at the start"


_STAGES_WITH_STATE = frozenset({Mechanism.KEYED, Mechanism.STAGE_OF_SPARK, Mechanism.OPEN})


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRecord:
    """An operator, as EXPLAIN names it, `level` steps below the result of the query.

    `key`, `keeps` and `bound` are of one with state: what it keeps, for each value of what, and until when; a `bound`
    of None is none. `stages` are those whose state is its own.
    """

    name: str
    level: int
    mechanism: str
    key: tuple[str, ...] | None = None
    keeps: str | None = None
    bound: str | None = None
    stages: tuple[str, ...] = ()

    @property
    def keeps_in_spark(self) -> bool:
        """Whether its state is one of Spark's state stores."""
        return self.keeps is not None and not self.stages


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord:
    """A table that is written: by what, and what a batch that is run again does to it."""

    name: str
    writer: str
    guarantee: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """The operators from the result down to the tables read, each before its inputs, and the tables written."""

    operators: tuple[OperatorRecord, ...] = ()
    sinks: tuple[SinkRecord, ...] = ()

    def run_by(self, mechanism: Mechanism) -> PlanRecord:
        """Return the plan with this behind all of its stages with state: where one cannot, none does."""
        changed = (
            replace(each, mechanism=mechanism) if each.mechanism in _STAGES_WITH_STATE else each
            for each in self.operators
        )
        return replace(self, operators=tuple(changed))

    def to_text(self) -> str:
        """Write it as JSON."""
        return json.dumps({"version": VERSION} | asdict(self), indent=1)


@dataclass(slots=True)
class StartedPlan:
    """The plan of a query as it was started last. Set by the thread that starts it, read from any."""

    plan: PlanRecord | None = None


def read_plan(files: CheckpointFiles) -> PlanRecord | None:
    """Read the plan; None where there is none, or none that is read here: nothing hangs on it."""
    try:
        value = json.loads(files.text(PLAN_FILE) or "{}")
        if value.get("version") != VERSION:
            return None
        return PlanRecord(
            operators=tuple(map(_operator, value["operators"])),
            sinks=tuple(SinkRecord(**each) for each in value["sinks"]),
        )
    except (StateMismatchError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _operator(value: Mapping[str, Any]) -> OperatorRecord:
    found = OperatorRecord(**value)
    key = None if found.key is None else tuple(found.key)
    return replace(found, key=key, stages=tuple(found.stages))
