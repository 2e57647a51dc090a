"""What the sinks of a statement set are called inside its one query: by their statements, not by their order. Pure.

Sinks know a batch by the query and this name: where two of them changed names, a batch that one has and the other has
not would be passed over by the wrong one when it is written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.catalog.errors import StateMismatchError
from penstock.sql.plan.analysed_insert import AnalysedInsert
from penstock.sql.plan.checkpoint_identity import CheckpointIdentity, same_text, statement_text
from penstock.sql.plan.checkpoint_place import old_folder_name
from penstock.sql.plan.place import QueryPlace
from penstock.sql.plan.shape import ANEW

__all__ = ["arranged"]


def arranged(
    members: Sequence[AnalysedInsert], place: QueryPlace, found: CheckpointIdentity | None
) -> tuple[list[tuple[int, str]], QueryPlace]:
    """Give the members' places in `members` and their names, in the checkpoint's order, and what it is to hold.

    `found` is what the set's checkpoint holds now. Raises StateMismatchError where it is not clear which of several
    INSERTs into one table is which.
    """
    texts = [statement_text(one.statement) for one in members]
    names = _names(members)
    if found is not None:
        names = _known_names(members, texts, names, found)
    order = list(enumerate(names))
    if found is not None:
        known = [name for name, _ in found.statements]
        if set(known) == set(names):
            order.sort(key=lambda one: known.index(one[1]))
    statements = tuple((name, texts[index]) for index, name in order)
    return order, replace(place, identity=replace(place.identity, statements=statements))


def _names(members: Sequence[AnalysedInsert]) -> list[str]:
    """Name sinks by their queries, as earlier versions wrote them where that tells them apart."""
    raw = [one.place.identity.query for one in members if one.place is not None]
    assert len(raw) == len(members), "they are placed"
    written = [old_folder_name(name) or name for name in raw]
    return [
        old if written.count(old) == 1 else name for old, name in zip(written, raw, strict=True)
    ]


def _known_names(
    members: Sequence[AnalysedInsert],
    texts: Sequence[str],
    names: Sequence[str],
    found: CheckpointIdentity,
) -> list[str]:
    free = dict(found.statements)
    given: dict[int, str] = {}
    for index, text in enumerate(texts):
        name = next((name for name, known in free.items() if same_text(known, text)), None)
        if name is not None:
            given[index] = name
            del free[name]
    for index, name in enumerate(names):
        if index in given:
            continue
        table = members[index].target.identifier
        same = [i for i, one in enumerate(members) if one.target.identifier == table]
        if len([i for i in same if i not in given]) > 1 and len(free) > 0:
            raise StateMismatchError(
                f"which of the set's INSERTs INTO {table.name} is which in the checkpoint of {found.query!r} is not "
                "clear: the text of several changed",
                hint="change one at a time, with a run in between; or " + "; or ".join(ANEW),
                span=members[index].statement.span,
            )
        if name not in free:
            # the one that is left of this table, whatever it was called by its place
            left = [n for n in free if n == table.name or n.startswith(f"{table.name}-")]
            given[index] = left[0] if len(left) == 1 else name
        else:
            given[index] = name
        free.pop(given[index], None)
    return [given[index] for index in range(len(members))]
