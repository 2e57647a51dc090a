"""Failpoints do what the variable says at the visit that it names, and nothing without it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.catalog.errors import ConfigError, QueryFailedError
from penstock.connector.failpoints import (
    FAILPOINTS,
    FOLDER_VARIABLE,
    VARIABLE,
    Fail,
    Failpoint,
    Failpoints,
    Freeze,
    Kill,
    Wait,
    parse_failpoints,
    reach,
)

ROOT = Path(__file__).resolve().parents[2]
PASS_THRICE = (
    "from penstock.connector.failpoints import reach\n"
    "for visit in range(1, 4):\n"
    "    print(visit, flush=True)\n"
    "    reach('read')\n"
)


def passing(text: str, **more: str) -> subprocess.Popen[str]:
    """A process that passes `read` three times and says before each which time it is."""
    return subprocess.Popen(
        [sys.executable, "-c", PASS_THRICE],
        cwd=ROOT,
        env={**os.environ, VARIABLE: text, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def test_every_action_is_understood() -> None:
    """Four actions, each with the visit at which it is taken; a file's name may have any sign but a semicolon."""
    text = "planned=kill@3; read=stop;written=fail@12 ; committed=wait:/tmp/a=b@c@2;"

    assert parse_failpoints(text) == {
        "planned": Failpoint(action=Kill(), count=3),
        "read": Failpoint(action=Freeze()),
        "written": Failpoint(action=Fail(), count=12),
        "committed": Failpoint(action=Wait(file=Path("/tmp/a=b@c")), count=2),
    }


@pytest.mark.parametrize(
    "text", ["writen=kill", "read", "read=die", "read=kill@0", "read=kill@x", "read=wait:"]
)
def test_what_is_not_known_is_refused(text: str) -> None:
    """A test that waits for a failpoint with a slip in its name would wait for ever."""
    with pytest.raises(ConfigError, match=VARIABLE) as refused:
        parse_failpoints(text)

    assert refused.value.hint


def test_the_action_is_taken_at_its_visit_alone() -> None:
    """The visits before and after it pass, and so do other places."""
    points = Failpoints({"read": Failpoint(action=Fail(), count=2)})
    points.reach("read")
    points.reach("planned")
    with pytest.raises(QueryFailedError, match="failpoint read"):
        points.reach("read")

    points.reach("read")


def test_one_process_of_several_takes_the_action(tmp_path: Path) -> None:
    """With a folder a task that is tried again is not killed again; the file there tells which process it was."""
    point = {"read": Failpoint(action=Fail())}
    with pytest.raises(QueryFailedError):
        Failpoints(point, tmp_path).reach("read")
    Failpoints(point, tmp_path).reach("read")

    assert (tmp_path / "read").read_text(encoding="ascii") == str(os.getpid())


def test_without_the_variable_nothing_happens() -> None:
    """The test run itself is such a process."""
    for name in FAILPOINTS:
        reach(name)

    assert VARIABLE not in os.environ


def test_a_process_kills_itself() -> None:
    """At the second visit, with the status that kill -9 has in a shell."""
    out, _ = (process := passing("read=kill@2")).communicate(timeout=30)

    assert (out, process.returncode) == ("1\n2\n", 137)


def test_a_process_freezes_until_it_is_told_to_go_on(tmp_path: Path) -> None:
    """It stops itself, which its parent sees, and ends well after SIGCONT."""
    process = passing("read=stop@3", **{FOLDER_VARIABLE: str(tmp_path)})
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    stopped = os.WIFSTOPPED(status)
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=30)

    assert stopped
    assert (out, process.returncode) == ("1\n2\n3\n", 0)


def test_a_process_waits_while_the_file_is_there(tmp_path: Path) -> None:
    """It goes on by itself once somebody removes the file."""
    gate, taken = tmp_path / "gate", tmp_path / "taken"
    gate.touch()
    taken.mkdir()
    process = passing(f"read=wait:{gate}", **{FOLDER_VARIABLE: str(taken)})
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    gate.unlink()
    out, _ = process.communicate(timeout=30)

    assert (out, process.returncode) == ("2\n3\n", 0)


def test_every_failpoint_of_the_table_is_passed_somewhere() -> None:
    """The table has what the code has, and the other way round."""
    called = {
        name
        for file in (ROOT / "penstock").rglob("*.py")
        for name in re.findall(r'\breach\("([\w-]+)"\)', file.read_text(encoding="utf-8"))
    }

    assert called == set(FAILPOINTS)
