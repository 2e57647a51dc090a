"""Tell how a table is read: its columns, watermark, splits and end, and how lookups ask for its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import Source, SourceKind, SplitSource
from penstock.connector.registry import connector_of
from penstock.sql.plan.explain.operators import plain_text, unnest_text
from penstock.sql.plan.lookup_keys import (
    FullScanLookup,
    KeyLookup,
    LookupStrategy,
    lookup_strategy,
)
from penstock.sql.plan.rules.field_paths import path_texts

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.sql.plan.analysed import TableScan


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedScan:
    """How a table is read: `facts` are told in this order, each as a text.

    `columns` are what is read, with the fields of rows that are not read whole; `types` are those of its columns.
    """

    table: str
    connector: str
    columns: tuple[str, ...]
    types: tuple[tuple[str, str | None], ...] = ()
    facts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    watermark: Mapping[str, str | bool] | None = None

    @property
    def lines(self) -> list[str]:
        """The facts as lines."""
        columns = ", ".join(self.columns) or "none, rows are counted"
        lines = [f"{name}: {text}" for name, texts in self.facts.items() for text in texts]
        return [f"columns: {columns}", *lines]

    @property
    def document(self) -> dict[str, Any]:
        """The facts as JSON, without the watermark, which is apart."""
        facts = {
            name.replace(" ", "_"): list(texts)
            if len(texts) > 1 or name == "computed"
            else texts[0]
            for name, texts in self.facts.items()
            if name != "watermark"
        }
        return {"connector": self.connector, "reads": list(self.columns), **facts}


def explain_scan(
    leaf: TableScan, project: Path | None, lookups: Sequence[exp.Join] = ()
) -> ExplainedScan:
    """Tell how a table is read. `lookups` are the lookup joins with it; without a `project` no connector is asked."""
    table = leaf.table
    source = None
    if project is not None:
        source = leaf.source or connector_of(table, project=project).source(table)
    read = [name for name in leaf.columns if name != ROW_KIND]
    columns = [
        text
        for name in read
        for text in (path_texts(name, leaf.fields[name]) if name in leaf.fields else (name,))
    ]
    facts: dict[str, Sequence[str]] = {}
    for name, text in _looked_up(leaf, source, lookups):
        facts[name] = (*facts.get(name, ()), text)
    if leaf.computed:
        facts["computed"] = [f"{name} AS {text}" for name, text in leaf.computed.items()]
    if leaf.fragment is not None and leaf.fragment.parts:
        parts = " AND ".join(map(_part, leaf.fragment.parts))
        facts["filter"] = [f"{parts}, by the tasks that read"]
    if leaf.two_phases is not None and leaf.grouped is not None and leaf.two_phases.unnested:
        facts["unnest"] = [f"{unnested_text(leaf.two_phases.unnested)}, by the tasks that read"]
    watermark: dict[str, str | bool] | None = None
    if (declared := table.schema.watermark) is not None:
        followed = leaf.rowtime is not None
        watermark = {
            "column": declared.column,
            "expression": declared.expression,
            "followed": followed,
        }
        use = "" if followed else " (not followed: nothing waits for it)"
        facts["watermark"] = [f"{declared.column} AS {declared.expression}{use}"]
    if source is not None:
        if source.changes is not ChangelogMode.INSERT_ONLY:
            facts["changes"] = [str(source.changes)]
        splits = _splits(source) if source.kind is SourceKind.SPLITS else "Spark's own"
        facts["splits"] = [splits]
        facts["end"] = ["where its options say" if leaf.bounded else "none"]
    return ExplainedScan(
        table=str(table.identifier),
        connector=str(table.option_map["connector"]),
        columns=(*columns, *leaf.computed),
        types=tuple((name, _type(leaf, name)) for name in (*read, *leaf.computed)),
        facts=facts,
        watermark=watermark,
    )


def unnested_text(calls: Sequence[exp.Expr]) -> str:
    """Return the calls of UNNEST that reading tasks compute; empty for none."""
    return ", ".join(unnest_text(call, call.alias, call.alias_column_names) for call in calls)


def _part(condition: exp.Expr) -> str:
    text = plain_text(condition)
    return f"({text})" if isinstance(condition, exp.Or) else text


def _type(leaf: TableScan, name: str) -> str | None:
    kind = leaf.table.schema.column(name).type
    return None if kind is None else str(kind)


def _looked_up(
    leaf: TableScan, source: Source | None, lookups: Sequence[exp.Join]
) -> Iterator[tuple[str, str]]:
    if source is not None and lookups:
        for join in lookups:
            yield from _lookup(lookup_strategy(join, leaf, source))
    elif leaf.looked_up:
        yield "looked up", "read anew in each batch"


def _lookup(way: LookupStrategy) -> list[tuple[str, str]]:
    match way:
        case KeyLookup(source=source, keys=keys, retry=retry):
            names = ", ".join(key.column for key in keys)
            lines = [
                ("looked up", f"the rows of each batch's keys ({names}), asked for by key"),
                ("lookup cache", str(source.lookup_cache)),
            ]
            if retry is not None:
                again = f"asked for again after {retry.delay_ms / 1000:g} s, {retry.attempts} times at most"
                lines.append(("keys without rows", again))
            return lines
        case FullScanLookup(reason=reason):
            whole = f", whole, as {reason}" if reason else ""
            return [("looked up", f"read anew in each batch{whole}")]
        case _:
            assert_never(way)


def _splits(source: SplitSource) -> str:
    tasks = source.parallelism
    text = f"{tasks} tasks"
    if tasks is None:
        text = (
            "a task for each"
            if source.task_size is None
            else "a task for each, small ones share one"
        )
    if source.max_records_per_batch is not None:
        text += f", at most {source.max_records_per_batch} records in a batch"
    if source.discovery_interval_ms > 0 and not source.bounded:
        text += f", new ones are looked for every {source.discovery_interval_ms / 1000:g} s"
    return text
