"""The shape of a query's state: what a checkpoint was made for, and whether a changed query still fits it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from penstock.catalog.errors import StateMismatchError
from penstock.sql.dialect import to_text
from penstock.sql.dialect.rewrites.unfold_grouping_sets import described_sets, key_text
from penstock.sql.plan.rules.aggregate import own_aggregates
from penstock.sql.plan.rules.inline import is_stateful
from penstock.sql.plan.rules.lookup_join import is_lookup

VERSION = 1

KEEP = (
    "undo the change: filters, projections and options may change over a checkpoint, the tables read, the target and "
    "the operators that keep state may not"
)
_FROM_SCRATCH = (
    "start over from the startup mode of the sources with --from-scratch, which sets the checkpoint aside "
    "(rows that were already written are written again)"
)
START_OVER_HINTS = (
    _FROM_SCRATCH,
    "start over beside it, under another SET 'pipeline.name' = '...'",
)
"""The ways on that every checkpoint leaves open, however it is damaged or does not fit."""


STAGE = "MAINTAINED"
"""The first word of the text of a stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned:
    """A plan that earlier versions had for a query, and that gave wrong rows: `wrong` says which.

    `staged`: stages ran it then.
    """

    wrong: str
    staged: bool = False

    def is_of(self, state: tuple[str, ...]) -> bool:
        """Return whether a checkpoint with this state may be of that plan."""
        return self.staged == any(text.startswith(STAGE) for text in state)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFingerprint:
    """What may not change between two starts from one checkpoint.

    `sources` in order, as Spark knows them by position; `state` is the text of every operator that keeps state
    (grouping keys and aggregates, windows, joins), empty where the query keeps none; `sink` is the target. `replanned`
    are the plans of earlier versions that are not gone on with; a checkpoint does not hold them.
    """

    sources: tuple[str, ...]
    sink: str
    state: tuple[str, ...]
    replanned: tuple[Replanned, ...] = field(default=(), compare=False)

    def to_text(self) -> str:
        """Write the shape as JSON for the checkpoint."""
        compared = {"sources": self.sources, "sink": self.sink, "state": self.state}
        return json.dumps({"version": VERSION} | compared, indent=2)

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> QueryFingerprint:
        """Read the JSON that `to_text` wrote. Raises StateMismatchError for a version that is not known here.

        Raises KeyError or TypeError for what is no shape at all.
        """
        if value.get("version") != VERSION:
            raise StateMismatchError(
                f"the checkpoint was written by another version of Penstock (shape {value.get('version')!r})",
                hint="run that version, or start over with another pipeline.name",
            )
        return cls(sources=tuple(value["sources"]), sink=value["sink"], state=tuple(value["state"]))


def fingerprint_of(
    query: exp.Expr,
    sources: Sequence[str],
    sink: str,
    stages: Sequence[str] = (),
    replanned: Sequence[Replanned] = (),
) -> QueryFingerprint:
    """Describe the state of a query without views. Filters and plain projections may change, state may not.

    `stages` are the texts of what it keeps beside Spark's state (a maintained query's).
    """
    bare = query.copy()
    for table in bare.find_all(exp.Table):
        table.set("hints", None)  # options change how a table is read, not what is kept of it
    operators = tuple(_operators(bare)) if is_stateful(bare) else ()
    return QueryFingerprint(
        sources=tuple(sources),
        sink=sink,
        state=(*operators, *stages),
        replanned=tuple(replanned),
    )


def _operators(query: exp.Expr) -> list[str]:
    found = []
    for select in query.find_all(exp.Select, bfs=False):
        group, distinct = select.args.get("group"), select.args.get("distinct")
        if group is not None or own_aggregates(select):
            keys = ", ".join(map(key_text, group.expressions)) if group is not None else "()"
            values = sorted({to_text(node) for node in select.find_all(exp.AggFunc)})
            found.append(
                f"GROUP BY {keys} COMPUTE {', '.join(values)} {to_text(select.args['from_'])}"
            )
        if distinct is not None:
            found.append(f"DISTINCT {', '.join(to_text(p) for p in select.expressions)}")
        joins = select.args.get("joins") or ()
        found.extend(_join(join) for join in joins if not is_lookup(join))
    return found


def _join(join: exp.Expr) -> str:
    sets = described_sets(join)
    return f"GROUPING SETS {sets[0]}" if sets else to_text(join)


def check_fits(known: QueryFingerprint, wanted: QueryFingerprint, checkpoint: str) -> None:
    """Raise StateMismatchError, saying what differs, when a checkpoint is of another query."""
    differing = [
        f"{name}: the checkpoint has {_show(was)}, the query has {_show(now)}"
        for name, was, now in (
            ("sources", known.sources, wanted.sources),
            ("sink", (known.sink,), (wanted.sink,)),
            ("state", known.state, wanted.state),
        )
        if was != now
    ]
    if not differing:
        return
    why = "the query, or the plan that this version has for it, changed, and its checkpoint"
    if wrong := _wrong_before(known, wanted):
        why = f"earlier versions gave wrong rows for this query ({wrong}), and their checkpoint"
    raise StateMismatchError(
        f"{why} {checkpoint} no longer fits; " + "; ".join(differing),
        hint="; or ".join(ways_on(known, wanted)),
    )


def ways_on(known: QueryFingerprint, wanted: QueryFingerprint) -> tuple[str, ...]:
    """Return what to do about a checkpoint that does not fit."""
    if _wrong_before(known, wanted):
        return (*START_OVER_HINTS, f"if the query was changed: {KEEP}")
    return (KEEP, *START_OVER_HINTS)


def _wrong_before(known: QueryFingerprint, wanted: QueryFingerprint) -> str:
    """Return which rows were wrong in the plan that a checkpoint may be of; empty where it is of none such."""
    if known.sink != wanted.sink or set(known.sources) != set(wanted.sources):
        return ""
    return "; ".join(one.wrong for one in wanted.replanned if one.is_of(known.state))


def _show(parts: tuple[str, ...]) -> str:
    return "[" + " | ".join(parts) + "]" if parts else "none"
