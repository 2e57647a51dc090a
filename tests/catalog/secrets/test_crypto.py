"""The key of secrets: where it is found, who may read it, and what another key does."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from penstock.catalog import masking
from penstock.catalog.errors import ConfigError, DefinitionError
from penstock.catalog.secrets.crypto import (
    KEY_FILE_VARIABLE,
    KEY_VARIABLE,
    KeyRing,
    SealedSecret,
    check_value,
    decrypt,
    find_keys,
    key_id,
    key_location,
    make_key_file,
    new_key,
    put_key_first,
)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key in the environment, and nothing masked yet."""
    monkeypatch.setattr(masking, "_values", set())
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.delenv(KEY_FILE_VARIABLE, raising=False)


def sealed(keys: KeyRing, value: str = "hunter2-secret", file: Path | None = None) -> SealedSecret:
    """A secret under the current key."""
    path = None if file is None else str(file)
    return SealedSecret(
        name="s", token=keys.encrypt(value, name="s"), key_id=keys.current_id, key_file=path
    )


def test_a_key_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """And never in the place of another: two processes that make it at once have the same one."""
    file = tmp_path / "new" / "secret.key"
    make_key_file(file)
    first = file.read_text()
    make_key_file(file)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == first
    assert [found.name for found in file.parent.iterdir()] == ["secret.key"]


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """As ssh does with its keys."""
    file = tmp_path / "secret.key"
    make_key_file(file)
    file.chmod(0o640)

    with pytest.raises(ConfigError, match="may be used by others \\(mode 0640\\)"):
        find_keys(key_location(file))


@pytest.mark.parametrize("text", ["", "short", "not-a-key!" * 5, "ä" * 44])
def test_what_is_no_key_is_refused_and_not_shown(text: str, tmp_path: Path) -> None:
    """It may be a password that somebody took for one."""
    file = tmp_path / "secret.key"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)

    with pytest.raises(ConfigError) as caught:
        find_keys(key_location(file))
    assert not text or text not in f"{caught.value.message} {caught.value.hint}"


def test_the_environment_goes_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First a key, then the name of a file, then the catalog's own file."""
    own, named, given = tmp_path / "own", tmp_path / "named", new_key()
    make_key_file(own)
    make_key_file(named)
    by_default = find_keys(key_location(own))
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(named))
    by_name = find_keys(key_location(own))
    monkeypatch.setenv(KEY_VARIABLE, given)

    assert by_default.keys == (own.read_text().strip(),)
    assert by_name.keys == (named.read_text().strip(),)
    assert find_keys(key_location(own)).keys == (given,)


def test_without_any_key_the_error_says_how_to_get_one() -> None:
    """For a team's catalog nothing is made by itself."""
    with pytest.raises(ConfigError, match="no key for secrets") as caught:
        find_keys(key_location(None))

    assert "penstock secret key" in str(caught.value.hint)


def test_the_process_that_connects_finds_the_file_that_the_secret_names(tmp_path: Path) -> None:
    """It has neither the project nor the catalog."""
    file = tmp_path / "secret.key"
    make_key_file(file)
    secret = sealed(find_keys(key_location(file)), file=file)

    assert decrypt(secret) == "hunter2-secret"
    assert masking.without_secrets("hunter2-secret") == "******"


def test_another_key_is_told_from_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both by names that tell nothing of the keys."""
    there, other = new_key(), KeyRing(keys=(new_key(),))
    monkeypatch.setenv(KEY_VARIABLE, there)
    foreign = sealed(other)
    damaged = SealedSecret(name="s", token="gAAAAAB", key_id=key_id(there))

    with pytest.raises(ConfigError, match=f"another key \\({other.current_id}\\)"):
        decrypt(foreign)
    with pytest.raises(ConfigError, match="is damaged"):
        decrypt(damaged)


def test_older_keys_still_open_what_they_closed(tmp_path: Path) -> None:
    """A process that runs has what was encrypted before the rotation."""
    file = tmp_path / "secret.key"
    make_key_file(file)
    before = sealed(find_keys(key_location(file)), file=file)
    put_key_first(file, new_key())
    keys = find_keys(key_location(file))

    assert decrypt(before) == "hunter2-secret"
    assert keys.ids[1] == before.key_id != keys.current_id
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_neither_keys_nor_tokens_are_shown() -> None:
    """In the representation of values."""
    keys = KeyRing(keys=(new_key(),))
    secret = sealed(keys)

    assert keys.keys[0] not in repr(keys)
    assert secret.token not in f"{secret!r} {secret}"


def test_a_value_is_of_the_secret_that_it_was_given_to() -> None:
    """Whoever may write to the catalog's tables cannot put one secret's value under another's name."""
    keys = KeyRing(keys=(new_key(),))
    token = keys.encrypt("of-production", name="production")

    assert keys.decrypt(SealedSecret(name="production", token=token, key_id=keys.current_id)) == (
        "of-production"
    )
    with pytest.raises(ConfigError, match="has the value of another one"):
        keys.decrypt(SealedSecret(name="harmless", token=token, key_id=keys.current_id))


def test_a_token_without_its_mark_does_not_open() -> None:
    """It would pass for one of an older Penstock, which opens under every name."""
    keys = KeyRing(keys=(new_key(),))
    bare = keys.encrypt("pa55word", name="production").removeprefix("v2.")

    for name in ("production", "mine"):
        with pytest.raises(ConfigError, match=r"the mark of the secret .* was taken off") as caught:
            keys.decrypt(SealedSecret(name=name, token=bare, key_id=keys.current_id))
        assert f"ALTER SECRET {name}" in str(caught.value.hint)
        assert "pa55word" not in str(caught.value)


def test_a_value_with_a_nul_is_refused() -> None:
    """That character stands between a name and its value."""
    with pytest.raises(DefinitionError, match="has a NUL"):
        check_value("mine", "pa55\0word")


def test_a_value_that_an_older_penstock_encrypted_is_read() -> None:
    """Its token has no name in it."""
    key = new_key()
    token = Fernet(key).encrypt(b"of-old").decode("ascii")

    sealed = SealedSecret(name="any", token=token, key_id=key_id(key))
    assert KeyRing(keys=(key,)).decrypt(sealed) == "of-old"
