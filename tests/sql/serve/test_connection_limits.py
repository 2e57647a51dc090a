"""How many connections there are, and which makes way."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from penstock.sql.serve.connection_limits import (
    LONGEST_WAIT_S,
    MAX_KEYS,
    Bounds,
    Guest,
    Guests,
    LoginLimits,
)

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


# --- how long log-ins wait after failures ---


def guess(limits: LoginLimits, name: str, address: str, now_s: float) -> float | None:
    """Try a wrong password; gives how long it had to wait."""
    waited = limits.wait_s(name, address, now_s)
    if waited is not None:
        limits.failed(name, address, now_s + waited)
    return waited


def test_guesses_at_a_name_wait_longer_and_longer() -> None:
    """Two are free; then the time doubles, and one after the other."""
    limits = LoginLimits()
    now_s, waits = 0.0, []
    for _ in range(8):
        waited = guess(limits, "alice", "10.0.0.1", now_s)
        assert waited is not None
        waits.append(waited)
        now_s += waited

    assert waits[:3] == [0.0, 0.0, 0.0]
    assert waits[3:] == sorted(waits[3:])
    assert waits[-1] >= 8.0


def test_guesses_at_many_names_of_one_address_wait_too() -> None:
    """A list of names is no way around."""
    limits = LoginLimits()
    waits = [guess(limits, f"user{number}", "10.0.0.1", 0.0) for number in range(60)]

    assert waits[:8] == [0.0] * 8
    assert waits[-1] is None


def test_the_owner_of_a_name_logs_in_from_elsewhere() -> None:
    """A thousand guesses at the name from one address cost its owner a second at most."""
    limits = LoginLimits()
    for number in range(1000):
        limits.wait_s("alice", "10.0.0.1", number * 0.01)
        limits.failed("alice", "10.0.0.1", number * 0.01)
    waited = limits.wait_s("alice", "10.0.0.2", 10.0)

    assert waited is not None
    assert waited <= 1.0


def test_who_has_logged_in_from_an_address_does_not_wait_for_others_there() -> None:
    """Users of one gateway share an address with whoever guesses."""
    limits = LoginLimits()
    limits.wait_s("alice", "10.0.0.1", 0.0)
    limits.succeeded("alice", "10.0.0.1")
    for number in range(100):
        guess(limits, f"user{number}", "10.0.0.1", 1.0)

    assert limits.wait_s("mallory", "10.0.0.1", 1.0) is None
    assert limits.wait_s("alice", "10.0.0.1", 1.0) == 0.0


def test_a_wrong_guess_does_not_take_an_address_from_its_user() -> None:
    """Somebody who shares it may make one."""
    limits = LoginLimits()
    limits.wait_s("alice", "10.0.0.1", 0.0)
    limits.succeeded("alice", "10.0.0.1")
    guess(limits, "alice", "10.0.0.1", 1.0)
    for number in range(100):
        guess(limits, f"user{number}", "10.0.0.1", 1.0)

    assert limits.wait_s("alice", "10.0.0.1", 1.0) == 0.0


def test_a_name_is_one_in_every_case() -> None:
    """A directory takes it so, and would be asked for each."""
    limits = LoginLimits()
    for name in ("alice", "ALICE", "Alice", " alice ", "aLICE", "alIce"):
        limits.failed(name, "10.0.0.1", 0.0)
    limits.succeeded("BOB", "10.0.0.1")
    one_failure = LoginLimits()
    one_failure.failed("alice", "10.0.0.1", 0.0)

    assert limits.wait_s("alice", "10.0.0.1", 0.0) == 4.0
    assert one_failure.wait_s("alice", "10.0.0.1", 0.0) == 0.0
    assert limits.wait_s("bob", "10.0.0.1", 0.0) == 0.0


def test_attempts_that_are_not_checked_cost_nobody_s_failures() -> None:
    """A crowd of names, all refused, would flush what is known of guesses."""
    limits = LoginLimits()
    for _ in range(12):
        limits.failed("alice", "10.0.0.1", 0.0)
    for number in range(MAX_KEYS):
        limits.wait_s(f"user{number}", "10.0.0.2", 1.0)

    assert limits.wait_s("alice", "10.0.0.1", 1.0) is None


def test_guesses_at_once_are_refused_when_the_queue_is_long() -> None:
    """Each takes its turn before it is known to be wrong."""
    limits = LoginLimits()
    for _ in range(12):
        limits.failed("alice", "10.0.0.1", 0.0)
    waits = [limits.wait_s("alice", "10.0.0.1", 40.0) for _ in range(3)]

    assert waits[0] == 0.0
    assert waits[1:] == [None, None]
    assert limits.wait_s("alice", "10.0.0.1", 75.0 - LONGEST_WAIT_S) is not None


def test_failures_are_forgotten_after_a_quarter_of_an_hour() -> None:
    """Then guesses are free again, slow as they have become."""
    limits = LoginLimits()
    for _ in range(10):
        limits.failed("alice", "10.0.0.1", 0.0)

    assert limits.wait_s("alice", "10.0.0.1", 1000.0) == 0.0
    assert limits.wait_s("alice", "10.0.0.1", 1000.0) == 0.0


def test_names_without_number_take_no_memory_without_end() -> None:
    """The longest unused are forgotten."""
    limits = LoginLimits()
    for number in range(MAX_KEYS):
        limits.failed(f"user{number}", f"10.0.{number}", 0.0)

    assert len(limits._tries) == MAX_KEYS
