"""The password file: who is in it, who may log in, what spoils it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.catalog.errors import ConfigError, UnknownObjectError
from penstock.sql.serve.password_file import (
    check_users,
    is_right,
    read_users,
    remove_user,
    write_user,
)

PASSWORD = "correct horse"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A password file with one user."""
    path = tmp_path / "users"
    write_user(path, "alice", PASSWORD)
    return path


def test_only_the_right_password_of_a_known_user_lets_in(file: Path) -> None:
    """Names are told apart by case, as passwords are."""
    users = read_users(file)

    assert is_right(users, "alice", PASSWORD)
    assert not is_right(users, "alice", PASSWORD.upper())
    assert not is_right(users, "alice", "")
    assert not is_right(users, "Alice", PASSWORD)
    assert not is_right(users, "mallory", PASSWORD)


def test_the_file_is_its_owners_and_holds_no_password(file: Path) -> None:
    """Two users with one password have different lines."""
    write_user(file, "bob", PASSWORD)
    text = file.read_text(encoding="utf-8")
    hashes = {line.rpartition("$")[2] for line in text.splitlines()}

    assert file.stat().st_mode & 0o777 == 0o600
    assert PASSWORD not in text
    assert len(hashes) == 2


def test_adding_a_user_again_changes_the_password(file: Path) -> None:
    """And says that it was no new user."""
    is_new = write_user(file, "alice", "battery staple")

    assert not is_new
    assert is_right(read_users(file), "alice", "battery staple")
    assert not is_right(read_users(file), "alice", PASSWORD)


def test_a_user_who_is_removed_is_gone(file: Path) -> None:
    """One who is not there is an error that names the nearest."""
    write_user(file, "bob", PASSWORD)
    with pytest.raises(UnknownObjectError, match="no user 'alicia'") as caught:
        remove_user(file, "alicia")
    remove_user(file, "alice")

    assert "alice" in str(caught.value.hint)
    assert list(read_users(file)) == ["bob"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622], ids=oct)
def test_a_file_that_others_may_open_is_refused(file: Path, mode: int) -> None:
    """Whoever reads it can guess at leisure, whoever writes it can let himself in."""
    file.chmod(mode)
    with pytest.raises(ConfigError, match="open to other users") as caught:
        read_users(file)

    assert caught.value.hint == f"chmod 600 {file}"


def test_a_file_of_another_user_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """He can let himself in; a file of root's is as good as one's own."""
    owner = file.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner:
        with pytest.raises(ConfigError, match=f"belongs to another user .uid {owner}."):
            read_users(file)
        return
    assert read_users(file)
    os.chown(file, 65534, -1)
    with pytest.raises(ConfigError, match=r"belongs to another user .uid 65534."):
        read_users(file)


@pytest.mark.parametrize(
    "line",
    [
        "alice:secret",
        "alice:$scrypt$ln=15,r=8,p=1$###$AAAA",
        "alice:$scrypt$ln=15,r=8,p=1$AAA$AAAA",
        "alice:$scrypt$ln=40,r=8,p=1$AAAA$AAAA",
        "alice:$scrypt$ln=15,r=4000000,p=1$AAAA$AAAA",
        "alice:$scrypt$ln=15,r=8,p=0$AAAA$AAAA",
    ],
)
def test_a_malformed_line_is_an_error_with_its_number(tmp_path: Path, line: str) -> None:
    """Also one whose hash would take all memory to check."""
    path = tmp_path / "users"
    path.touch(mode=0o600)
    path.write_text(f"# staff\n\n{line}\n", encoding="utf-8")

    with pytest.raises(ConfigError, match="line 3 of the password file"):
        read_users(path)


@pytest.mark.parametrize("name", ["", "a:b", "a b", "a/b", "a@b", "a\nb", ".a", "ü"])
def test_a_name_that_a_client_could_not_send_is_refused(tmp_path: Path, name: str) -> None:
    """A colon or a line end would also be read as something else."""
    with pytest.raises(ConfigError, match="is no name for a user"):
        write_user(tmp_path / "users", name, PASSWORD)


def test_a_short_password_is_refused(tmp_path: Path) -> None:
    """And no file is made."""
    with pytest.raises(ConfigError, match="too short: 7"):
        write_user(tmp_path / "users", "alice", "1234567")

    assert not (tmp_path / "users").exists()


def test_a_missing_file_is_told_how_to_make(tmp_path: Path) -> None:
    """With the command that does."""
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        read_users(tmp_path / "users")

    assert "penstock serve users add NAME --file" in str(caught.value.hint)


def test_a_file_without_users_is_refused_at_the_start(tmp_path: Path) -> None:
    """Nobody could ever log in."""
    path = tmp_path / "nobody"
    path.touch(mode=0o600)

    with pytest.raises(ConfigError, match="names no user"):
        check_users(path)
