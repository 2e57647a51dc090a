"""Folders that are locked by the process that made them: those that nobody holds are removed by the next."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from penstock.sql.held_folder import hold_folder

PREFIX = "penstock-of-tests-"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def abandoned(temporary: Path, name: str, *, empty: bool = False) -> Path:
    """A folder without a lock, as a killed process leaves it."""
    folder = temporary / name
    folder.mkdir()
    if not empty:
        (folder / "token").write_text("of somebody who is gone")
    return folder


def test_what_nobody_holds_is_removed(temporary: Path) -> None:
    """By its prefix alone; what is held stays, for as long as it is."""
    other = abandoned(temporary, "other-1")
    first = hold_folder(PREFIX)
    (first.path / "token").write_text("held")
    left = abandoned(temporary, f"{PREFIX}1-x")
    second = hold_folder(PREFIX)

    assert not left.exists()
    assert {*temporary.iterdir()} == {other, first.path, second.path}
    first.remove()
    second.remove()
    assert [*temporary.iterdir()] == [other]


def test_a_folder_without_a_file_may_be_in_the_making(temporary: Path) -> None:
    """Its lock follows the folder; a link is none, wherever it leads."""
    made = abandoned(temporary, f"{PREFIX}1-x", empty=True)
    behind = abandoned(temporary, "elsewhere")
    link = temporary / f"{PREFIX}2-x"
    link.symlink_to(behind)
    hold_folder(PREFIX).remove()

    assert made.exists()
    assert (behind / "token").exists()
    assert link.is_symlink()


def test_only_this_user_reads_it() -> None:
    """Whatever the mask of the process."""
    folder = hold_folder(PREFIX)

    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.remove()
