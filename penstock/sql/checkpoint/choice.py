"""Which checkpoint each INSERT of a pipeline resumes from: by its statement, not by its place in the file. Pure.

A statement that a checkpoint holds unchanged resumes from that one, wherever it stands now. One that is in none is the
changed form of another only where that leaves no choice; else the run is refused, naming both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.catalog.errors import Span, StateMismatchError
from penstock.sql.checkpoint.fingerprint import QueryFingerprint
from penstock.sql.checkpoint.identity import folder_name, old_folder_name

_SHOWN = 160  # characters of a statement in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCheckpoint:
    """A checkpoint of the pipeline. `name` and `text` are its identity; None for one of an earlier version.

    `table` is its target; None where its fingerprint is unreadable. `elsewhere`: another existing file has the
    statement, or a session had it and files run. `lost_table`: a file had it that no longer exists. `by_text`: only
    the same statement resumes from it, as statements of sessions come one by one. `old_folder`: it is in a folder
    where earlier versions put several pipelines.
    """

    location: str
    folder: str
    table: str | None
    name: str | None = None
    text: str | None = None
    shape: QueryFingerprint | None = None
    elsewhere: bool = False
    gone: bool = False
    by_text: bool = False
    old_folder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedQuery:
    """A query that is to run. `base` is its target's name, `table` its full name, `span` where it stands.

    `keeps`: it has a checkpoint of its own; INSERT .. VALUES has none, nor an INSERT of a set that reads once.
    `fixed`: it has its name whatever its statement is, as what fills a materialized table. `earlier_shapes` gives
    those of the forms in which earlier versions ran it, where they differ; each is a plan of its own.
    """

    base: str
    table: str
    text: str
    span: Span | None = None
    shape: QueryFingerprint | None = None
    keeps: bool = True
    fixed: bool = False
    earlier_shapes: Callable[[], Sequence[QueryFingerprint]] = field(default=tuple, compare=False)

    def fits(self, known: KnownCheckpoint) -> bool:
        """Return whether a checkpoint has the shape of this query."""
        return known.shape == self.shape or known.shape in self.earlier_shapes()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointChoice:
    """The name of a query in its pipeline, and the checkpoint that it resumes from; None where it
    starts from scratch.
    """

    name: str
    known: KnownCheckpoint | None = None


@dataclass(slots=True)
class _Table:
    """The queries into one table, and its checkpoints, while they are brought together.

    `of_sets` are statements that have none as things are, and may turn out to have: those of sets that read once.
    """

    wanted: dict[int, WantedQuery]
    names: Sequence[str]
    known: list[KnownCheckpoint]
    of_sets: Collection[str] = ()
    found: dict[int, KnownCheckpoint] = field(default_factory=dict)

    def pair(self, index: int, known: KnownCheckpoint) -> None:
        del self.wanted[index]
        self.known.remove(known)
        self.found[index] = known

    def name_of(self, known: KnownCheckpoint) -> str:
        """Return the name of the query; of an old checkpoint by its folder."""
        if known.name is not None:
            return known.name
        named = (p for p in self.names if known.folder in {folder_name(p), old_folder_name(p)})
        return next(named, known.folder)


def _default_names(wanted: Sequence[WantedQuery], taken: Collection[str]) -> list[str]:
    """Name queries by their targets, in order: t, t-2, t-3."""
    names: list[str] = []
    for one in wanted:
        names.append(one.base if one.fixed else _free(one.base, {*names, *taken}))
    return names


def choose_checkpoints(
    wanted: Sequence[WantedQuery],
    known: Sequence[KnownCheckpoint],
    *,
    pipeline: str,
    taken: Collection[str] = (),
    running: Collection[str] = (),
    in_order: bool = False,
) -> list[CheckpointChoice]:
    """Choose for the queries of a pipeline, in the order of their file. Raises StateMismatchError.

    `taken` are names of queries that are not asked for. `running` are such too, except for the same statement: that is
    refused by the lease, and does not start a second time beside itself. `in_order`: ambiguities are decided by the
    order, as the checkpoints are not gone on from.
    """
    texts = {one.text for one in wanted}
    others, taken = taken, {*taken, *running}
    names = _default_names(wanted, taken)
    found = _fixed(wanted, known)
    known = [
        k for k in known if k.name not in others and (k.name not in running or k.text in texts)
    ]
    for table in dict.fromkeys(one.table for one in wanted if one.keeps and not one.fixed):
        mine = {
            index: one
            for index, one in enumerate(wanted)
            if one.keeps and not one.fixed and one.table == table
        }
        state = _Table(
            wanted=mine,
            names=[names[i] for i in mine],
            known=_of(mine, names, known),
            of_sets={one.text for one in wanted if not one.keeps},
        )
        # what else is in the pipeline is not asked for: a statement that is not known may be any of that
        several = bool(taken) and any(names[i] != one.base for i, one in mine.items())
        _match(state, names, in_order=in_order, several=several)
        if state.wanted and state.known:
            raise _not_clear(state, pipeline)
        found |= {index: (state.name_of(one), one) for index, one in state.found.items()}
    used = {
        *taken,
        *(one.name or one.folder for one in known),
        *(name for name, _ in found.values()),
    }
    chosen = []
    for index, one in enumerate(wanted):
        if index in found:
            name, checkpoint = found[index]
            chosen.append(CheckpointChoice(name=name, known=checkpoint))
        elif one.keeps and not one.fixed:
            name = names[index] if names[index] not in used else _free(one.base, used)
            used.add(name)
            chosen.append(CheckpointChoice(name=name))
        else:
            chosen.append(CheckpointChoice(name=names[index]))
    return chosen


def _fixed(
    wanted: Sequence[WantedQuery], known: Sequence[KnownCheckpoint]
) -> dict[int, tuple[str, KnownCheckpoint]]:
    found = {}
    for index, one in enumerate(wanted):
        folders = {folder_name(one.base), old_folder_name(one.base)}
        for k in known if one.fixed and one.keeps else ():
            if (
                k.table in {one.table, None}
                and (k.name or one.base) == one.base
                and k.folder in folders
            ):
                found[index] = (one.base, k)
    return found


def _of(
    mine: Mapping[int, WantedQuery], names: Sequence[str], known: Sequence[KnownCheckpoint]
) -> list[KnownCheckpoint]:
    """Return the checkpoints of the table that queries write into; an unreadable one is known by its folder."""
    tables = {one.table for one in mine.values()}
    folders = {f for i in mine for f in (folder_name(names[i]), old_folder_name(names[i]))}
    return [k for k in known if k.table in tables or (k.table is None and k.folder in folders)]


def _match(state: _Table, names: Sequence[str], *, in_order: bool, several: bool) -> None:
    _by_text(state)
    state.known = [
        one
        for one in state.known
        if not (one.elsewhere or one.by_text or one.text in state.of_sets)
    ]
    _by_name(state, names)
    # the statement of a file that is gone may be one of these, or none
    if not several and not any(one.gone for one in state.known):
        if len(state.wanted) == len(state.known) == 1:
            state.pair(next(iter(state.wanted)), state.known[0])  # it was changed
        _by_shape(state)
    if in_order:
        for index, one in list(zip(list(state.wanted), list(state.known), strict=False)):
            state.pair(index, one)


def _by_text(state: _Table) -> None:
    """Bring together what is the same; of several the one that is in no other file."""
    for index, one in list(state.wanted.items()):
        same = [k for k in state.known if k.text == one.text]
        if same:
            state.pair(index, min(same, key=lambda k: k.elsewhere))


def _by_name(state: _Table, names: Sequence[str]) -> None:
    """Bring checkpoints that hold no statement to the queries in their places, where all fit together."""
    if any(one.text is not None for one in state.known):
        return
    by_name = {state.name_of(one): one for one in state.known}
    if {names[index] for index in state.wanted} != set(by_name):
        return
    pairs = [(index, one, by_name[names[index]]) for index, one in state.wanted.items()]
    if len(pairs) == 1 or all(one.fits(k) for _, one, k in pairs):
        for index, _, known in pairs:
            state.pair(index, known)


def _by_shape(state: _Table) -> None:
    """Bring all that is left together, where tables read and state leave one way to do so: those may not change."""
    wanted, known = dict(state.wanted), list(state.known)
    pairs: list[tuple[int, KnownCheckpoint]] = []
    while wanted:
        only = [
            (index, found[0])
            for index, one in wanted.items()
            if len(found := [k for k in known if one.fits(k)]) == 1
        ]
        if not only or len(wanted) != len(known):
            return
        pairs.append(only[0])
        del wanted[only[0][0]]
        known.remove(only[0][1])
    for index, one in pairs:
        state.pair(index, one)


def _not_clear(state: _Table, pipeline: str) -> StateMismatchError:
    first = next(iter(state.wanted.values()))
    inserts = "; ".join(f"{_where(one)}{_short(one.text)}" for one in state.wanted.values())
    there = "; ".join(
        f"{state.name_of(one)!r}, {'of an unknown statement' if one.text is None else 'of ' + _short(one.text)}"
        for one in state.known
    )
    names = " or ".join(state.name_of(one) for one in state.known)
    file = "FILE" if first.span is None else first.span.file
    line = "N" if first.span is None else str(first.span.line)
    return StateMismatchError(
        f"which checkpoint of the pipeline {pipeline!r} an INSERT INTO {first.base} resumes from is not clear. "
        f"In no checkpoint: {inserts}. Checkpoints that none of the INSERTs is in: {there}",
        hint=f"say which it is: `penstock checkpoint assign {file} --line {line} --to NAME`, where NAME is {names}; or "
        f"that it starts over: `penstock checkpoint assign {file} --line {line} --new`; or undo the change of its text",
        span=first.span,
    )


def _where(one: WantedQuery) -> str:
    return "" if one.span is None else f"line {one.span.line}: "


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."


def _free(base: str, used: Collection[str]) -> str:
    name, number = base, 1
    while name in used:
        number += 1
        name = f"{base}-{number}"
    return name
