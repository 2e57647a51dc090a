"""How long log-ins wait after failures."""

from __future__ import annotations

from penstock.sql.serve.connection_limits import LONGEST_WAIT_S, MAX_KEYS, LoginLimits


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
