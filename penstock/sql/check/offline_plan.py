"""The queries of checked statements, planned as far as that needs no engine: what `penstock plan` decides about.

`sql/runner/plan.py` plans the same statements in Spark, for a run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from penstock.catalog.definitions.encryption import encrypt_references
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError
from penstock.catalog.model.function import Language
from penstock.catalog.options.redaction import redact
from penstock.connector.contract import Sink
from penstock.connector.registry import connector_of
from penstock.connector.urls import is_remote
from penstock.sql.check.checkpoint_assignment import name_scripts_here
from penstock.sql.check.script_check import (
    CheckedScript,
    CheckedStatement,
    CheckOverlay,
    ErrorCollector,
)
from penstock.sql.checkpoint.fingerprint import QueryFingerprint
from penstock.sql.checkpoint.identity import LocatedQuery, QueryLocation, read_identity
from penstock.sql.checkpoint.reader import METADATA, LocalFiles, read_shape
from penstock.sql.execution.context import SessionContext
from penstock.sql.jobs.startable_query import CheckpointedQuery
from penstock.sql.plan.analysed import AnalysedInsert, TableScan
from penstock.sql.plan.query_location import LocatedStatement, as_checkpointed, insert_fingerprint
from penstock.sql.plan.rules.inline import called_functions
from penstock.sql.plan.statement_set import SeparateQueries, SharedRead, order_sinks, share


class OnlySparkKnowsError(Exception):
    """The start decision is unknown without an engine; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineQuery(LocatedQuery):
    """A query that is not planned in Spark (`CheckpointedQuery`).

    `targets` are the sinks that it writes, by the names that tell those of a set apart; one alone has none.
    """

    sink: str
    sources: tuple[str, ...]
    leaves: tuple[TableScan, ...]
    bounded: bool
    is_stream: bool
    shape: QueryFingerprint
    project: Path
    targets: tuple[tuple[str, Sink], ...]

    def check_target(self) -> None:
        """Check that every target goes with the checkpoint; changes nothing.

        Raises StateMismatchError; NotReachedError where only Spark can check.
        """
        text = LocalFiles(location=self.checkpoint).text(METADATA)
        query = None if text is None else str(json.loads(text)["id"])
        folder = LocalFiles(location=self.checkpoint).folder
        for name, target in self.targets:
            if not target.capabilities.resumable:
                continue
            try:
                target.check_resumes_here(folder, query, name)
            except InputError as error:
                raise error.within(f"sink {name}") if name else error from None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineStatement:
    """A statement and its queries. `reason` and `rivals` are those of a set (`StartableStatementSet`)."""

    queries: tuple[CheckpointedQuery, ...] = ()
    reason: str | None = None
    rivals: tuple[str, ...] = ()


def offline_statement_of(checked: CheckedStatement) -> OfflineStatement:
    """Return a statement as it was planned in Spark."""
    one_set = checked.planned_set
    if one_set is None:
        return OfflineStatement(queries=checked.queries)
    return OfflineStatement(queries=one_set.queries, reason=one_set.reason, rivals=one_set.rivals)


def plan_scripts_offline(
    scripts: Sequence[CheckedScript],
    context: SessionContext,
    *,
    from_scratch: bool = False,
) -> list[list[OfflineStatement]]:
    """Name the queries of checked files, and return them, statement by statement.

    May block on I/O where options refer to secrets. Raises InputErrors, OnlySparkKnowsError.
    """
    _check_bases(scripts)
    scripts = name_scripts_here(scripts, context.project, from_scratch=from_scratch)
    overlay, faults = CheckOverlay(context), ErrorCollector()
    found = [
        [
            faults.gather(partial(_judged, one, overlay), default=OfflineStatement())
            for one in script.statements
        ]
        for script in scripts
    ]
    faults.raise_all()
    return found


def _check_bases(scripts: Sequence[CheckedScript]) -> None:
    for script in scripts:
        for one in script.statements:
            for insert in one.inserts:
                if is_remote(insert.base):
                    shown = redact({"path": insert.base})["path"]
                    raise OnlySparkKnowsError(f"only Spark reads the checkpoints in {shown}")


def _judged(checked: CheckedStatement, overlay: CheckOverlay) -> OfflineStatement:
    try:
        overlay.apply(checked.statement)
        if not checked.inserts:
            return OfflineStatement()
        assert checked.placed is not None, "the files are named"
        inserts = tuple(_ready(insert, overlay) for insert in checked.inserts)
        if not checked.members:
            return OfflineStatement(queries=(_of_insert(inserts[0], overlay.context.project),))
        return _of_set(inserts, checked.placed, overlay)
    except InputError as error:
        error.span = error.span or checked.statement.span
        raise


def _ready(insert: AnalysedInsert, overlay: CheckOverlay) -> AnalysedInsert:
    """Return the form that its checkpoint has, with the secrets that options of its tables refer to, as they are now.

    Raises UnknownObjectError, ConfigError.
    """
    if insert.earlier_forms is not None and insert.location is not None:
        insert = as_checkpointed(insert, read_shape(_open(insert.location.checkpoint)))
    secrets = overlay.context.namespace.secrets
    leaves = tuple(
        replace(leaf, table=encrypt_references(leaf.table, secrets)) for leaf in insert.query.leaves
    )
    target = encrypt_references(insert.target, secrets)
    sink = insert.sink
    if target is not insert.target:
        sink = connector_of(target, project=overlay.context.project).sink(target)
    query = replace(insert.query, leaves=leaves)
    return replace(insert, query=query, target=target, sink=sink)


def _of_insert(insert: AnalysedInsert, project: Path) -> OfflineQuery:
    assert insert.location is not None, "it is placed"
    return OfflineQuery(
        sink=str(insert.target.identifier),
        sources=insert.query.source_names,
        leaves=insert.query.followed,
        bounded=insert.query.bounded,
        is_stream=insert.is_stream,
        location=insert.location,
        shape=insert_fingerprint(insert),
        project=project,
        targets=(("", insert.sink),),
    )


def _of_set(
    inserts: Sequence[AnalysedInsert], placed: LocatedStatement, overlay: CheckOverlay
) -> OfflineStatement:
    project = overlay.context.project
    way = share([insert.query for insert in inserts], project)
    match way:
        case SeparateQueries(reason=reason):
            queries = tuple(_of_insert(insert, project) for insert in inserts)
            return OfflineStatement(queries=queries, reason=reason, rivals=placed.rivals)
        case SharedRead(leaf=leaf):
            _check_functions(inserts, overlay.context.namespace)
            assert placed.set_location is not None, "it was placed as one query"
            query = _shared(inserts, leaf, placed.set_location, project)
            return OfflineStatement(queries=(query,), rivals=placed.rivals)


def _shared(
    inserts: Sequence[AnalysedInsert], leaf: TableScan, location: QueryLocation, project: Path
) -> OfflineQuery:
    found = read_identity(_open(location.checkpoint))
    order, location = order_sinks(inserts, location, found)
    sink, sources = ", ".join(name for _, name in order), (str(leaf.table.identifier),)
    return OfflineQuery(
        sink=sink,
        sources=sources,
        leaves=(leaf,),
        bounded=leaf.bounded,
        is_stream=True,
        location=location,
        shape=QueryFingerprint(sources=sources, sink=sink, state=()),
        project=project,
        targets=tuple((name, inserts[index].sink) for index, name in order),
    )


def _check_functions(inserts: Sequence[AnalysedInsert], namespace: Namespace) -> None:
    """Refuse users' functions, which may be declared not deterministic: their modules need Spark to be loaded."""
    for insert in inserts:
        for function, _ in called_functions(insert.statement.query, namespace):
            if function.language is not Language.JAVA:  # Spark takes those for deterministic
                raise OnlySparkKnowsError(
                    f"only Spark knows whether {function.name} is deterministic, and so whether the statement set is "
                    "one query"
                )


def _open(location: str) -> LocalFiles:
    return LocalFiles(location=location)
