"""The names of the queries of statements, and their checkpoints; chosen for all of a run at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from penstock.catalog.model.table import Table
from penstock.sql.checkpoint.choice import (
    CheckpointChoice,
    KnownCheckpoint,
    WantedQuery,
    choose_checkpoints,
)
from penstock.sql.checkpoint.fingerprint import QueryFingerprint, fingerprint_of
from penstock.sql.checkpoint.identity import (
    CheckpointIdentity,
    QueryLocation,
    checkpoint_location,
    checkpoint_root,
    joined_text,
    refresh_name,
    same_text,
    statement_text,
)
from penstock.sql.checkpoint.search import SET_TABLE, CheckpointSearch, OpenFiles
from penstock.sql.incremental.describe import state_of
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.plan.replanned import replanned
from penstock.sql.plan.statement_set import SET_NAME, SharedRead, share


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The INSERTs of one statement. `file` is the file that it stands in, as checkpoints name it.

    `apart`: a set whose INSERTs run side by side, though their texts would allow for one query.
    """

    inserts: tuple[AnalysedInsert, ...]
    is_set: bool = False
    apart: bool = False
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedStatement:
    """The places of a statement's INSERTs, in order; of a set that of its one query too, where it is one.

    `rivals` are checkpoints of a set that ran the other way.
    """

    locations: tuple[QueryLocation, ...]
    set_location: QueryLocation | None = None
    rivals: tuple[str, ...] = ()
    file: str | None = None

    @property
    def jobs(self) -> frozenset[str]:
        """The names of the running queries, among all pipelines."""
        if self.set_location is not None:
            return frozenset({self.set_location.job})
        return frozenset(location.job for location in self.locations)


@dataclass(slots=True, kw_only=True)
class _UnlocatedQuery:
    """A query to locate: of an INSERT, or of a whole set."""

    unit: int
    insert: AnalysedInsert
    wanted: WantedQuery
    file: str | None
    is_set: bool = False
    location: QueryLocation | None = None


@dataclass(slots=True, kw_only=True)
class _Pipeline:
    entries: list[_UnlocatedQuery] = field(default_factory=list)
    known: list[KnownCheckpoint] = field(default_factory=list)


def locate_statements(
    units: Sequence[Unit],
    project: Path,
    open_files: OpenFiles,
    *,
    taken: Collection[str] = (),
    running: Collection[str] = (),
    in_order: bool = False,
) -> list[LocatedStatement]:
    """Choose names and checkpoints of queries. Raises StateMismatchError where it is ambiguous which resumes.

    `taken` are jobs that others have, `running` those that run; `in_order` as `choose_checkpoints` has it.
    """
    pipelines: dict[tuple[str, str], _Pipeline] = {}
    for entry in _entries(units, project):
        key = (entry.insert.pipeline, entry.insert.base)
        pipelines.setdefault(key, _Pipeline()).entries.append(entry)
    for (name, base), one in pipelines.items():
        search = CheckpointSearch(
            open_files=open_files, root=checkpoint_root(base, project), project=project
        )
        wanted = [entry.wanted for entry in one.entries]
        if any(entry.wanted.keeps or entry.is_set for entry in one.entries):
            there = search.of_pipeline(name, files={entry.file for entry in one.entries})
            one.known = [_in_our_words(known, wanted) for known in there]
        chosen = choose_checkpoints(
            wanted,
            one.known,
            pipeline=name,
            taken=_names_in(name, taken),
            running=_names_in(name, running),
            in_order=in_order,
        )
        for entry, choice in zip(one.entries, chosen, strict=True):
            if choice.known is not None and not in_order:
                search.check_undisputed(name, choice.known)
            entry.location = _location(entry, choice, project)
    found = list(pipelines.values())
    return [_located(index, found) for index in range(len(units))]


def _in_our_words(known: KnownCheckpoint, wanted: Sequence[WantedQuery]) -> KnownCheckpoint:
    """Return the text of a checkpoint as this version writes it, where another one wrote the same statement."""
    texts = [one.text for one in wanted if one.table == known.table]
    if known.text is None or known.text in texts:
        return known
    text = next((text for text in texts if same_text(known.text, text)), known.text)
    return replace(known, text=text)


def _names_in(pipeline: str, jobs: Collection[str]) -> set[str]:
    """Return the names that the jobs of a pipeline have in it."""
    start = f"{pipeline}/"
    return {job.removeprefix(start) for job in jobs if job.startswith(start)}


def base_name(target: Table) -> str:
    """Name the first query into a table."""
    is_materialized = target.materialization is not None
    return refresh_name(target.identifier) if is_materialized else target.identifier.name


def as_checkpointed(insert: AnalysedInsert, known: QueryFingerprint | None) -> AnalysedInsert:
    """Return an INSERT in the form whose state a checkpoint holds: as earlier versions ran it, where that one fits.

    `known` is the fingerprint in the checkpoint, None where there is none yet.
    """
    if known is None or known == insert_fingerprint(insert):
        return insert
    for query, shape in zip(insert.earlier, _earlier_shapes(insert), strict=True):
        if shape == known:
            return replace(insert, query=query, earlier_forms=None)
    return insert


def _earlier_shapes(insert: AnalysedInsert) -> tuple[QueryFingerprint, ...]:
    return tuple(insert_fingerprint(replace(insert, query=query)) for query in insert.earlier)


def insert_fingerprint(insert: AnalysedInsert) -> QueryFingerprint:
    """Return what must not change between two starts of an INSERT."""
    query = insert.query
    return fingerprint_of(
        query.query,
        query.source_names,
        str(insert.target.identifier),
        query.phases if query.maintained is None else state_of(query.maintained),
        () if query.plan is None else replanned(query.plan),
    )


def _entries(units: Sequence[Unit], project: Path) -> Iterator[_UnlocatedQuery]:
    for index, unit in enumerate(units):
        queries = [one.query for one in unit.inserts]
        one_query = unit.is_set and not unit.apart
        shared = one_query and isinstance(share(queries, project), SharedRead)
        for insert in unit.inserts:
            keeps = insert.is_stream and not shared
            yield _UnlocatedQuery(
                unit=index,
                insert=insert,
                file=unit.file,
                wanted=WantedQuery(
                    base=base_name(insert.target),
                    table=str(insert.target.identifier),
                    text=statement_text(insert.statement),
                    span=insert.statement.span,
                    shape=insert_fingerprint(insert) if keeps else None,
                    earlier_shapes=partial(_earlier_shapes, insert) if keeps else tuple,
                    keeps=keeps,
                    fixed=insert.target.materialization is not None,
                ),
            )
        if unit.is_set:
            first = unit.inserts[0]
            texts = [statement_text(one.statement) for one in unit.inserts]
            yield _UnlocatedQuery(
                unit=index,
                insert=first,
                file=unit.file,
                is_set=True,
                wanted=WantedQuery(
                    base=SET_NAME,
                    table=SET_TABLE,
                    text=joined_text(texts),
                    span=first.statement.span,
                    keeps=shared,
                ),
            )


def _location(entry: _UnlocatedQuery, choice: CheckpointChoice, project: Path) -> QueryLocation:
    insert, known = entry.insert, choice.known
    canonical = checkpoint_location(insert.base, project, insert.pipeline, choice.name)
    before = known.text if known is not None and known.text != entry.wanted.text else None
    return QueryLocation(
        checkpoint=canonical if known is None else known.location,
        canonical=canonical,
        before=before,
        identity=CheckpointIdentity(
            pipeline=insert.pipeline,
            query=choice.name,
            table=entry.wanted.table,
            statements=((choice.name, entry.wanted.text),),
            file=entry.file,
            target=insert.run_for,
        ),
    )


def _located(unit: int, pipelines: Sequence[_Pipeline]) -> LocatedStatement:
    mine = [(one, entry) for one in pipelines for entry in one.entries if entry.unit == unit]
    locations = [entry.location for _, entry in mine if not entry.is_set]
    sets = [entry for _, entry in mine if entry.is_set]
    rivals = [
        known.location
        for one, entry in mine
        if not entry.wanted.keeps and (entry.is_set or entry.insert.is_stream)
        for known in one.known
        if _is_rival(known, entry, one)
    ]
    return LocatedStatement(
        locations=tuple(location for location in locations if location is not None),
        set_location=next((entry.location for entry in sets if entry.wanted.keeps), None),
        rivals=tuple(dict.fromkeys(rivals)) if sets else (),
        file=mine[0][1].file,
    )


def _is_rival(known: KnownCheckpoint, entry: _UnlocatedQuery, pipeline: _Pipeline) -> bool:
    """Return whether a checkpoint is what this query would have if the set ran the other way."""
    location = entry.location
    assert location is not None, "all of them are placed by now"
    others = {
        one.location.checkpoint for one in pipeline.entries if one.wanted.keeps and one.location
    }
    if known.table != entry.wanted.table or known.location in others or known.elsewhere:
        return False
    if known.by_text:
        return known.text == entry.wanted.text
    return (
        known.text == entry.wanted.text
        or location.checkpoint == known.location
        or (known.name == location.identity.query)
    )
