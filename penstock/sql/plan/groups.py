"""Which tables of one query advance together: the members of its alignment groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.connector.scan import GroupMember
from penstock.sql.plan.analysed_query import AnalysedLeaf

__all__ = ["group_members"]


def group_members(
    leaves: Sequence[AnalysedLeaf], views: Sequence[str], directory: Path
) -> tuple[GroupMember | None, ...]:
    """Give each table its place in its group; None for one that is alone in it, or has none.

    `views` name the tables' scans; `directory`, one for each start of a query, is where they meet.
    """
    return tuple(_member(leaves, views, index, directory) for index in range(len(leaves)))


def _member(
    leaves: Sequence[AnalysedLeaf], views: Sequence[str], index: int, directory: Path
) -> GroupMember | None:
    group = leaves[index].group
    others = tuple(
        (view, str(leaf.table.identifier))
        for leaf, view in zip(leaves, views, strict=True)
        if group is not None and leaf.group == group and view != views[index]
    )
    if not others:
        return None
    return GroupMember(directory=str(directory), name=views[index], others=others)
