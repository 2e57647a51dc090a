"""Which failures of a catalog's store may pass: the others end a command by wrong input."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from penstock.catalog.store import postgres, sqlite


class RefusedError(Exception):
    """A failure of the driver, with the server's state where it is known."""

    def __init__(self, words: str, sqlstate: str | None = None) -> None:
        super().__init__(words)
        self.sqlstate = sqlstate


def failure(words: str, state: str | None = None) -> OperationalError:
    """As SQLAlchemy raises it."""
    return OperationalError("SELECT 1", {}, RefusedError(words, state))


def test_a_file_that_is_not_opened_passes_where_it_may_be_used(tmp_path: Path) -> None:
    """As where the process has no file left; without its folder it is so at the next start, too."""
    error = failure("unable to open database file")
    (tmp_path / "blocked").touch()
    (tmp_path / "folder").mkdir()

    assert sqlite.may_pass(error, tmp_path / "catalog.db")
    assert sqlite.may_pass(error, tmp_path / "blocked")
    assert not sqlite.may_pass(error, tmp_path / "nowhere" / "catalog.db")
    assert not sqlite.may_pass(error, tmp_path / "blocked" / "catalog.db")
    assert not sqlite.may_pass(error, tmp_path / "folder")
    assert sqlite.may_pass(failure("database is locked"), tmp_path / "nowhere" / "catalog.db")


def test_a_folder_that_may_not_be_written_to_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite makes files beside its own."""
    monkeypatch.setattr("os.access", lambda path, _: Path(path) != tmp_path)

    assert not sqlite.may_pass(failure("unable to open database file"), tmp_path / "catalog.db")


@pytest.mark.parametrize(
    ("words", "state", "passes"),
    [
        ("connection refused", None, True),
        ("FATAL:  the database system is starting up", None, True),
        ("too many connections", "53300", True),
        ('FATAL:  password authentication failed for user "a"', None, False),
        ('FATAL:  database "shop" does not exist', None, False),
        ('FATAL:  role "a" does not exist', None, False),
        ("of another language", "28P01", False),
        ("of another language", "28000", False),
        ("of another language", "3D000", False),
    ],
)
def test_a_server_that_refuses_the_log_in_stays(
    words: str, state: str | None, passes: bool
) -> None:
    """By the state, or by words where the driver has none."""
    assert postgres.may_pass(failure(words, state)) is passes
