"""Documents of a pipeline's plan: its operators with what they keep now, and the tables that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.catalog.masking import without_secrets
from penstock.connector.urls import is_url
from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.incremental.describe import FOLDER
from penstock.sql.incremental.state.folder_sizes import stage_bytes
from penstock.sql.ui.documents.fields import Document, known

if TYPE_CHECKING:
    from penstock.connector.commits import CommitTotals
    from penstock.sql.checkpoint.plan_record import OperatorRecord, PlanRecord, SinkRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSize:
    """What is kept under a name: rows and bytes, None for what is not known."""

    name: str
    rows: int | None
    size_bytes: int | None


def operator_documents(
    plan: PlanRecord | None,
    sizes: Sequence[StateSize],
    bytes_of: Callable[[str], int | None],
) -> list[Document]:
    """Describe the operators of a plan, and what they keep.

    `sizes` are the states as of the last batch: `<stage> <input>` is that of an input of a keyed stage, others are
    Spark's stores, in the order of the plan. `bytes_of` tells the bytes of a stage that has no size there. States of
    no operator of the plan stand behind it by their names, and all of them where there is no plan.
    """
    operators = () if plan is None else plan.operators
    stages = {stage for each in operators for stage in each.stages}
    of_stages = {stage: [size for size in sizes if _stage_of(size) == stage] for stage in stages}
    others = [size for size in sizes if _stage_of(size) not in stages]
    with_store = [each for each in operators if each.keeps_in_spark]
    # Spark has one store for each operator with state; where it has others, nothing says whose they are
    stores = iter(others) if len(others) == len(with_store) else iter(())
    found = [_operator(each, _sizes_of(each, of_stages, stores, bytes_of)) for each in operators]
    return [*found, *(_unplanned(size) for size in others if len(others) != len(with_store))]


def stage_sizes(checkpoint: str | None) -> Callable[[str], int | None]:
    """Return what tells the bytes of a stage that Spark runs; nothing of a checkpoint that is not on this machine."""
    if checkpoint is None or is_url(checkpoint):
        return lambda _: None
    return partial(stage_bytes, LocalFiles(location=checkpoint), FOLDER)


def _stage_of(size: StateSize) -> str:
    return size.name.partition(" ")[0]


def _sizes_of(
    operator: OperatorRecord,
    of_stages: Mapping[str, list[StateSize]],
    stores: Iterator[StateSize],
    bytes_of: Callable[[str], int | None],
) -> list[StateSize]:
    if operator.keeps_in_spark:
        return [size for size in (next(stores, None),) if size is not None]
    return [
        size
        for stage in operator.stages
        for size in of_stages[stage]
        or [StateSize(name=stage, rows=None, size_bytes=bytes_of(stage))]
    ]


def _operator(operator: OperatorRecord, sizes: Sequence[StateSize]) -> Document:
    return known(
        name=without_secrets(operator.name),
        level=operator.level,
        mechanism=str(operator.mechanism),
        key=None if operator.key is None else list(operator.key),
        keeps=None if operator.keeps is None else without_secrets(operator.keeps),
        bound=operator.bound,
        rows=_sum([size.rows for size in sizes]),
        bytes=_sum([size.size_bytes for size in sizes]),
    )


def _unplanned(size: StateSize) -> Document:
    return known(name=size.name, level=0, rows=size.rows, bytes=size.size_bytes)


def _sum(counts: Sequence[int | None]) -> int | None:
    """Add up; None where one is not known, and where there is none."""
    there = [count for count in counts if count is not None]
    return sum(there) if there and len(there) == len(counts) else None


def sink_documents(
    plan: PlanRecord | None, commits: Mapping[str, CommitTotals], watermark: str | None
) -> list[Document] | None:
    """Describe the tables written; `watermark` is that of the last committed batch. None where they are not known."""
    if plan is None:
        return None
    of_only = commits.get("") if len(plan.sinks) == 1 else None
    return [_sink(sink, commits.get(sink.name, of_only), watermark) for sink in plan.sinks]


def _sink(sink: SinkRecord, totals: CommitTotals | None, watermark: str | None) -> Document:
    described = known(
        name=sink.name, writer=sink.writer, guarantee=sink.guarantee, watermark=watermark
    )
    if totals is None:
        return described
    is_versioned = totals.version is not None
    return described | known(
        commits=sum(totals.durations) or None,
        commit_ms=round(totals.took_s * 1000) if sum(totals.durations) else None,
        version=totals.version,
        files=totals.files if is_versioned else None,
        transactions=totals.transactions or None,
    )
