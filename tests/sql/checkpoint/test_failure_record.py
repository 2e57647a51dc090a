"""The failures that a checkpoint has for people: few, each once, and nothing hangs on them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.catalog.masking import keep_secret
from penstock.sql.checkpoint.directory import record_failures
from penstock.sql.checkpoint.failure_record import (
    FAILURES_FILE,
    LONGEST_MESSAGE,
    MOST_FAILURES,
    FailureRecord,
    failure_record,
    failures_text,
    last_failures,
    read_failures,
)
from penstock.sql.checkpoint.reader import SHAPE_FILE, LocalFiles


def failed(at_ms: int) -> FailureRecord:
    """A failure at a time."""
    return FailureRecord(at_ms=at_ms, code="PEN-8000", message="Division by zero.")


def stored(folder: Path, text: str) -> LocalFiles:
    """A checkpoint with this text for its failures."""
    (folder / FAILURES_FILE).write_text(text)
    return LocalFiles(location=str(folder))


def test_failures_are_read_as_they_were_written(tmp_path: Path) -> None:
    """One without a code, too."""
    written = (failed(1), FailureRecord(at_ms=2, code=None, message="é"))

    assert read_failures(stored(tmp_path, failures_text(written))) == written


def test_the_newest_failures_are_kept_each_once() -> None:
    """A pipeline may fail for years."""
    many = [failed(at_ms) for at_ms in range(99)]
    found = last_failures(many, reversed(many))

    assert [each.at_ms for each in found] == [*range(99 - MOST_FAILURES, 99)]


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        '{"version": 1}',
        '{"version": 2, "failures": []}',
        '{"version": 1, "failures": [{}]}',
        '{"version": 1, "failures": [{"at_ms": "x", "code": null, "message": ""}]}',
        '{"version": 1, "failures": [{"at_ms": 1, "code": 5, "message": ""}]}',
        '{"version": 1, "failures": [{"at_ms": 1, "code": null, "message": "", "more": 1}]}',
        '{"version": 1, "failures": [{"at_ms": 9999999999999999, "code": null, "message": ""}]}',
    ],
)
def test_what_holds_no_failures_has_none(tmp_path: Path, damage: str) -> None:
    """Cut, of another version, or not there: the page does without them."""
    assert read_failures(LocalFiles(location=str(tmp_path))) == ()
    assert read_failures(stored(tmp_path, damage)) == ()


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_the_runner_waits_for_no_pipe_and_follows_no_link(tmp_path: Path, kind: str) -> None:
    """Whoever may write in a checkpoint could keep a pipeline from starting again; the file stays as it is."""
    checkpoint, file = tmp_path / "checkpoint", tmp_path / "checkpoint" / FAILURES_FILE
    checkpoint.mkdir()
    (checkpoint / SHAPE_FILE).write_text("{}")
    if kind == "pipe":
        os.mkfifo(file)
    else:
        (tmp_path / "elsewhere").write_text("{}")
        file.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StateMismatchError, match=FAILURES_FILE):
        record_failures(Mock(spec=()), str(checkpoint), [failed(1)])
    assert not file.is_file() or file.is_symlink()


def test_a_secret_at_the_cut_is_masked() -> None:
    """The part of it that is left would not be known as one."""
    keep_secret("hunter2-at-the-cut-of-a-message")
    found = failure_record(0, None, "x" * (LONGEST_MESSAGE - 8) + "hunter2-at-the-cut-of-a-message")

    assert len(found.message) <= LONGEST_MESSAGE
    assert "hunter" not in found.message


def test_a_file_with_too_much_is_cut(tmp_path: Path) -> None:
    """As one that somebody wrote."""
    value = json.loads(failures_text([failed(0)]))
    one = value["failures"][0] | {"message": "x" * 9_999}
    value["failures"] = [one | {"at_ms": at_ms} for at_ms in range(999)]
    found = read_failures(stored(tmp_path, json.dumps(value)))

    assert [len(each.message) for each in found] == [LONGEST_MESSAGE] * MOST_FAILURES
