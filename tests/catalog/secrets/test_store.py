"""Secrets in the catalog: encrypted rows, one key, rotation, overlays; on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.catalog import masking
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    ConfigError,
    DefinitionError,
    ObjectExistsError,
    UnknownObjectError,
)
from penstock.catalog.secrets.crypto import KEY_FILE_VARIABLE, KEY_VARIABLE, decrypt, new_key
from penstock.catalog.secrets.store import OverlaySecrets
from penstock.catalog.store.secrets import SqlSecrets
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.conftest import Store


@pytest.fixture(autouse=True)
def given_key(monkeypatch: pytest.MonkeyPatch) -> str:
    """A key in the environment, as a team has it."""
    monkeypatch.setattr(masking, "_values", set())
    monkeypatch.delenv(KEY_FILE_VARIABLE, raising=False)
    key = new_key()
    monkeypatch.setenv(KEY_VARIABLE, key)
    return key


@pytest.fixture
def secrets(catalog: SqlCatalog) -> SqlSecrets:
    """Those of a new catalog."""
    return catalog.secrets


@pytest.fixture
def own(file: Path, monkeypatch: pytest.MonkeyPatch) -> SqlSecrets:
    """Those of a catalog in a file, without a key in the environment."""
    monkeypatch.delenv(KEY_VARIABLE)
    return SqlCatalog(f"sqlite:///{file}").secrets


def test_a_secret_comes_back_and_lies_encrypted(secrets: SqlSecrets, store: Store) -> None:
    """Another process that has the key opens it; the rows tell nothing."""
    secrets.create("kafka", "hunter2 ä'\"\n")

    assert decrypt(store.open().secrets.sealed("kafka")) == "hunter2 ä'\"\n"
    assert "hunter2" not in str(store.execute("SELECT * FROM penstock_secrets"))


def test_only_names_and_times_are_listed(secrets: SqlSecrets) -> None:
    """By name; a change has a time of its own."""
    secrets.create("b", "value-b")
    secrets.create("a", "value-a")
    secrets.alter("b", "value-c")
    a, b = secrets.listed()

    assert (a.name, b.name) == ("a", "b")
    assert a.created_ms == a.changed_ms > 1_600_000_000_000
    assert b.changed_ms >= b.created_ms
    assert decrypt(secrets.sealed("b")) == "value-c"


def test_a_name_is_taken_once_and_has_to_be_there_to_go(secrets: SqlSecrets) -> None:
    """The nearest name is said."""
    secrets.create("kafka", "value-1")
    secrets.create("kafka", "value-2", if_not_exists=True)

    with pytest.raises(ObjectExistsError, match="there is a secret 'kafka' already"):
        secrets.create("kafka", "value-3")
    for change in (lambda: secrets.alter("kafke", "xyz"), lambda: secrets.drop("kafke"),
                   lambda: secrets.sealed("kafke")):  # fmt: skip
        with pytest.raises(UnknownObjectError) as caught:
            change()
        assert caught.value.hint == "did you mean 'kafka'?"
    secrets.drop("kafka")
    secrets.drop("kafka", if_exists=True)
    assert secrets.listed() == []


@pytest.mark.parametrize(("name", "value"), [("a b", "abc"), ("", "abc"), ("x", "ab"), ("x", "a" * 70_000)])  # fmt: skip
def test_what_could_not_be_referred_to_or_masked_is_refused(
    sqlite_store: Store, name: str, value: str
) -> None:
    """Nothing is written."""
    with pytest.raises(DefinitionError):
        sqlite_store.open().secrets.create(name, value)
    assert sqlite_store.open().secrets.listed() == []


def test_questions_make_no_store(file: Path) -> None:
    """As with tables."""
    secrets = SqlCatalog(f"sqlite:///{file}").secrets
    secrets.drop("none", if_exists=True)

    assert secrets.listed() == []
    assert not file.exists()


def test_the_first_secret_of_a_local_catalog_makes_its_key(own: SqlSecrets, file: Path) -> None:
    """Beside the file, for its owner; many that come at once have one key."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: own.create(f"s{n}", f"value-{n}"), range(8)))

    assert len((file.parent / "secret.key").read_text().split()) == 1
    assert [decrypt(own.sealed(f"s{n}")) for n in range(8)] == [f"value-{n}" for n in range(8)]


def test_a_lost_key_is_not_replaced_by_a_new_one(own: SqlSecrets, file: Path) -> None:
    """Half of the secrets under one key and half under another would be no help."""
    own.create("a", "value-a")
    (file.parent / "secret.key").unlink()

    with pytest.raises(ConfigError, match="encrypted with another key"):
        own.create("b", "value-b")
    with pytest.raises(ConfigError, match="there is no key file"):
        own.sealed("a")


def test_a_key_file_that_was_named_is_not_made(file: Path, own: SqlSecrets) -> None:
    """A wrong path is a mistake, not a wish."""
    named = SqlCatalog(f"sqlite:///{file}", secret_key_file=file.parent / "elsewhere.key")

    with pytest.raises(ConfigError, match=r"no key file .*elsewhere\.key"):
        named.secrets.create("a", "value-a")
    own.create("b", "value-b")
    assert own.sealed("b").key_file == str(file.parent / "secret.key")


def test_a_team_catalog_needs_a_key_that_is_given(
    postgresql_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file made on one machine would be missing on the others."""
    monkeypatch.delenv(KEY_VARIABLE)

    with pytest.raises(ConfigError, match="there is no key for secrets"):
        postgresql_store.open().secrets.create("a", "value-a")


def test_rotation_encrypts_everything_with_a_new_key(own: SqlSecrets, file: Path) -> None:
    """What was handed out before still opens: the old key stays behind the new one."""
    own.create("a", "value-a")
    own.create("b", "value-b")
    before = own.sealed("a")
    done = own.rotate()

    assert (done.secrets, done.new_key) == (2, True)
    assert {info.key_id for info in own.listed()} == {done.key_id} != {before.key_id}
    assert decrypt(before) == decrypt(own.sealed("a")) == "value-a"
    assert len((file.parent / "secret.key").read_text().split()) == 2


def test_keys_of_the_variable_are_rotated_by_the_user(
    secrets: SqlSecrets, given_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`NEW,OLD`, rotate, then `NEW` alone is enough."""
    secrets.create("a", "value-a")
    second = new_key()
    monkeypatch.setenv(KEY_VARIABLE, f"{second},{given_key}")
    done = secrets.rotate()
    monkeypatch.setenv(KEY_VARIABLE, second)

    assert not done.new_key
    assert decrypt(secrets.sealed("a")) == "value-a"


def test_a_draft_changes_nothing_and_seals_with_the_real_key(secrets: SqlSecrets) -> None:
    """A file is planned before its CREATE SECRET has run, and the processes that it starts have the key only."""
    secrets.create("kept", "value-1")
    secrets.create("gone", "value-2")
    overlay = OverlaySecrets(lambda: secrets)
    overlay.create("new", "value-3")
    overlay.alter("kept", "value-4")
    overlay.drop("gone")
    over = OverlaySecrets(lambda: overlay)

    assert [info.name for info in over.listed()] == ["kept", "new"]
    assert [decrypt(over.sealed(name)) for name in ("kept", "new")] == ["value-4", "value-3"]
    assert decrypt(secrets.sealed("kept")) == "value-1"
    for wrong in (lambda: over.drop("gone"), lambda: over.sealed("gone")):
        with pytest.raises(UnknownObjectError):
            wrong()
    with pytest.raises(ObjectExistsError):
        over.create("new", "value-5")


def test_a_namespace_and_its_drafts_have_the_catalogs_secrets(
    secrets: SqlSecrets, catalog: SqlCatalog
) -> None:
    """Statements are tried on overlays of overlays."""
    session = Namespace(catalog)
    session.secrets.create("a", "value-a")
    overlay = session.overlay().overlay()
    overlay.secrets.create("b", "value-b")

    assert [info.name for info in overlay.overlay().secrets.listed()] == ["a", "b"]
    assert [info.name for info in secrets.listed()] == ["a"]
