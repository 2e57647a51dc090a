"""`penstock secret`: values come from stdin, and nothing that is said has one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from penstock.catalog import masking
from penstock.catalog.errors import PenstockError
from penstock.catalog.options.references import reveal
from penstock.catalog.secrets import crypto
from penstock.catalog.secrets.crypto import KEY_FILE_VARIABLE, KEY_VARIABLE, decrypt
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.cli.commands.app import app
from penstock.sql.script.project import find_project
from tests.sql.cli.command_runner import CommandRunner


@pytest.fixture
def penstock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command in an empty project."""
    monkeypatch.setattr(masking, "_values", set())
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.delenv(KEY_FILE_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    runner = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments, stdin="": runner.invoke(app, ["secret", *arguments], input=stdin)


def value_of(name: str, folder: Path) -> str:
    """What the catalog keeps, opened with its key."""
    return decrypt(SqlCatalog(f"sqlite:///{folder}/.penstock/catalog.db").secrets.sealed(name))


def test_a_value_is_read_from_stdin_without_its_newline(
    penstock: Callable[..., Result], tmp_path: Path
) -> None:
    """A second time changes it."""
    created = penstock("set", "kafka", stdin="hunter2-cli\n")
    changed = penstock("set", "kafka", stdin="two\nlines\n")

    assert "created the secret kafka: write '${secret:kafka}'" in created.stderr
    assert "changed the secret kafka" in changed.stderr
    assert value_of("kafka", tmp_path) == "two\nlines"
    assert created.stdout == changed.stdout == ""


def test_names_and_times_are_listed(penstock: Callable[..., Result]) -> None:
    """For people and for programs."""
    nothing = penstock("ls")
    penstock("set", "kafka", stdin="hunter2-cli")
    (row,) = json.loads(penstock("ls", "--format", "json").stdout)["secrets"]

    assert "there are no secrets" in nothing.stderr
    assert row.keys() == {"name", "created", "changed", "key_id"}
    assert penstock("ls").stdout.startswith("kafka  created 20")


def test_a_secret_is_removed_only_with_yes(penstock: Callable[..., Result], tmp_path: Path) -> None:
    """Who refers to it is said first."""
    penstock("set", "kafka", stdin="hunter2-cli")
    _define_user(tmp_path)
    asked, wrong = penstock("rm", "kafka"), penstock("rm", "kafak")
    done = penstock("rm", "kafka", "--yes")

    assert "orders refers to the secret kafka" in asked.stderr
    assert "would remove the secret kafka" in asked.stderr
    assert wrong.exit_code == 2
    assert "did you mean 'kafka'?" in wrong.stderr
    assert "removed the secret kafka" in done.stderr
    assert penstock("ls").stdout == ""


def _define_user(folder: Path) -> None:
    from dataclasses import replace

    from tests.catalog.examples import table

    options = (("connector", "kafka"), ("properties.sasl.password", "${secret:kafka}"))
    SqlCatalog(f"sqlite:///{folder}/.penstock/catalog.db").create(replace(table(), options=options))


def test_rotation_keeps_every_value(penstock: Callable[..., Result], tmp_path: Path) -> None:
    """Under a new key, the old one behind it."""
    penstock("set", "kafka", stdin="hunter2-cli")
    rotated = penstock("rotate")

    assert "1 secrets are encrypted with a new key now" in rotated.stderr
    assert len((tmp_path / ".penstock" / "secret.key").read_text().split()) == 2
    assert value_of("kafka", tmp_path) == "hunter2-cli"


def test_a_key_file_that_the_project_file_no_longer_names_is_none_to_read(
    penstock: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its author could leave the line out, and refer to the file as to any other."""
    file = tmp_path / "team.key"
    file.write_text(penstock("key").stdout)
    file.chmod(0o600)
    (tmp_path / "penstock.toml").write_text('[secrets]\nkey-file = "team.key"\n')
    penstock("set", "kafka", stdin="hunter2-cli")
    (tmp_path / "penstock.toml").write_text("")
    monkeypatch.setattr(crypto, "_key_files", set())
    find_project(tmp_path)
    with pytest.raises(PenstockError, match="key"):
        reveal(f"${{file:{file}}}", secret=True)

    assert (tmp_path / ".penstock" / crypto.KEY_FILES).stat().st_mode & 0o077 == 0


def test_the_project_file_names_the_key_file(
    penstock: Callable[..., Result], tmp_path: Path
) -> None:
    """`penstock secret key` makes what is in it; a file that is not there is not made."""
    (tmp_path / "penstock.toml").write_text('[secrets]\nkey-file = "keys/team.key"\n')
    missing = penstock("set", "kafka", stdin="hunter2-cli")
    file = tmp_path / "keys" / "team.key"
    file.parent.mkdir()
    file.write_text(penstock("key").stdout)
    file.chmod(0o600)
    made = penstock("set", "kafka", stdin="hunter2-cli")

    assert missing.exit_code == 2
    assert "there is no key file" in missing.stderr
    assert made.exit_code == 0
    assert not (tmp_path / ".penstock" / "secret.key").exists()
