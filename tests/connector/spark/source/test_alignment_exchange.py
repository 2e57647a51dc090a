"""The board: what tables of one group, planned in different processes, know of each other."""

from __future__ import annotations

from pathlib import Path

from penstock.connector.scan import GroupMember
from penstock.connector.source.microbatch.events import AlignmentGroupFetched
from penstock.connector.spark.source.planning import AlignmentExchange

NAMES = {"v_0": "orders", "v_1": "payments", "v_2": "refunds"}


def board(directory: Path, name: str) -> AlignmentExchange:
    """Make the board as one of three members sees it."""
    others = tuple((other, table) for other, table in NAMES.items() if other != name)
    return AlignmentExchange(
        GroupMember(directory=str(directory / "board"), name=name, others=others)
    )


def test_a_table_that_has_published_nothing_is_named(tmp_path: Path) -> None:
    """By its table, as a person has to understand why the others wait."""
    orders, payments = board(tmp_path, "v_0"), board(tmp_path, "v_1")

    assert orders.look(0) == AlignmentGroupFetched(lowest_ms=None, silent=("payments", "refunds"))
    payments.publish(0, 5, 8)
    assert orders.look(0) == AlignmentGroupFetched(lowest_ms=5, silent=("refunds",))


def test_the_lowest_of_the_others_counts(tmp_path: Path) -> None:
    """The own potential is not among them, and one that holds nobody does not count."""
    members = {name: board(tmp_path, name) for name in NAMES}
    members["v_0"].publish(0, 1, 1)
    members["v_1"].publish(0, None, None)
    members["v_2"].publish(0, 300, 300)
    members["v_2"].publish(0, 700, 700)

    assert members["v_0"].look(0) == AlignmentGroupFetched(lowest_ms=700)
    assert members["v_2"].look(0) == AlignmentGroupFetched(lowest_ms=1)


def test_a_table_that_had_its_turn_counts_with_what_it_decided(tmp_path: Path) -> None:
    """One that is asked later in the round counts with how far it could get."""
    orders, payments = board(tmp_path, "v_0"), board(tmp_path, "v_1")
    board(tmp_path, "v_2").publish(9, None, None)
    payments.publish(3, 100, 250)

    assert orders.look(3) == AlignmentGroupFetched(lowest_ms=100)
    assert orders.look(4) == AlignmentGroupFetched(lowest_ms=250)


def test_a_board_is_read_by_its_owner_only(tmp_path: Path) -> None:
    """It lies below the session's private directory, and is made where it is missing."""
    board(tmp_path, "v_0").publish(0, 1, 1)

    assert (tmp_path / "board").stat().st_mode & 0o077 == 0
    assert [path.name for path in (tmp_path / "board").iterdir()] == ["v_0.json"]
