"""How many connections there are, and which makes way."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from penstock.sql.serve.connection_limits import Bounds, Guest, Guests

BOUNDS = Bounds(
    connections=3, connections_per_address=2, waiting=4, waiting_per_address=2, login_s=10.0
)
HERE, THERE = "10.0.0.1", "10.0.0.2"


@pytest.fixture
def guests() -> Guests:
    """Nobody is there."""
    return Guests(BOUNDS)


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """A connection; all guests share it."""
    with socket.socket() as connection:
        yield connection


def coming(connection: socket.socket, address: str, since_s: float = 0.0) -> Guest:
    """Somebody connects."""
    return Guest(connection=connection, address=address, since_s=since_s)


def test_the_first_that_waits_makes_way_for_the_next_of_its_address(
    guests: Guests, connection: socket.socket
) -> None:
    """Others wait on."""
    first, second, other, third = (
        coming(connection, address) for address in (HERE, HERE, THERE, HERE)
    )
    admitted = [guests.admit(guest) for guest in (first, second, other, third)]

    assert admitted == [True] * 4
    assert [guest.ended for guest in (first, second, other, third)] == [True, False, False, False]


def test_the_address_with_most_connections_makes_way_for_others(
    guests: Guests, connection: socket.socket
) -> None:
    """A crowd of one address keeps nobody else out."""
    crowd = [coming(connection, HERE) for _ in range(2)]
    others = [coming(connection, f"10.0.1.{number}") for number in range(3)]
    admitted = [guests.admit(guest) for guest in (*crowd, *others)]

    assert admitted == [True] * 5
    assert [guest.ended for guest in crowd] == [True, False]
    assert not any(guest.ended for guest in others)


def test_a_connection_whose_password_is_checked_does_not_make_way(
    guests: Guests, connection: socket.socket
) -> None:
    """Nor is its time over; where nobody makes way, the next one is not taken."""
    guests_there = [coming(connection, HERE) for _ in range(2)]
    for guest in guests_there:
        guests.admit(guest)
        guest.checked = True
    admitted = guests.admit(coming(connection, HERE))
    guests.end_late(1000.0)

    assert not admitted
    assert not any(guest.ended for guest in guests_there)


def test_a_connection_that_waits_for_its_turn_makes_way(
    guests: Guests, connection: socket.socket
) -> None:
    """One whose check began before does not, and one that has made way is not checked."""
    checked, waits = (coming(connection, HERE) for _ in range(2))
    for guest in (checked, waits):
        guests.admit(guest)
        guest.waits_until_s = 100.0
    begun = guests.begin_check(checked)
    admitted = guests.admit(coming(connection, HERE))

    assert begun
    assert admitted
    assert (checked.ended, waits.ended) == (False, True)
    assert not guests.begin_check(waits)


def test_another_makes_way_where_the_crowd_is_being_checked(
    guests: Guests, connection: socket.socket
) -> None:
    """The next fullest address has one that can."""
    crowd = [coming(connection, HERE) for _ in range(2)]
    for guest in crowd:
        guests.admit(guest)
        guests.begin_check(guest)
    others = [coming(connection, f"10.0.1.{number}") for number in range(3)]
    admitted = [guests.admit(guest) for guest in others]

    assert admitted == [True] * 3
    assert [guest.ended for guest in (*crowd, *others)] == [False, False, True, False, False]


def test_the_time_in_the_line_for_a_check_ends(guests: Guests, connection: socket.socket) -> None:
    """It has a limit of its own, from the password on."""
    first, second = (coming(connection, HERE) for _ in range(2))
    for guest, until_s in ((first, 30.0), (second, 60.0)):
        guests.admit(guest)
        guest.waits_until_s = until_s
    guests.end_late(40.0)

    assert (first.ended, second.ended) == (True, False)


def test_the_time_for_a_log_in_ends(guests: Guests, connection: socket.socket) -> None:
    """Counted from the connection on."""
    early, late = coming(connection, HERE, 0.0), coming(connection, HERE, 5.0)
    for guest in (early, late):
        guests.admit(guest)
    guests.end_late(10.5)

    assert (early.ended, late.ended) == (True, False)


def test_connections_that_have_logged_in_are_counted_by_address_and_in_all(
    guests: Guests, connection: socket.socket
) -> None:
    """One that leaves makes room."""
    let_in = []
    inside = []
    for address in (HERE, HERE, HERE, THERE, "10.0.0.3"):
        guest = coming(connection, address)
        guests.admit(guest)
        let_in.append(guests.let_in(guest))
        inside.append(guest)
    guests.leave(inside[0])

    assert let_in == [True, True, False, True, False]
    assert guests.let_in(inside[2])


def test_one_that_was_ended_is_not_let_in(guests: Guests, connection: socket.socket) -> None:
    """Its password was right a moment too late."""
    guest = coming(connection, HERE)
    guests.admit(guest)
    guest.end()

    assert not guests.let_in(guest)
