"""References in option values: their form, what they stand for, how they travel."""

from __future__ import annotations

import os
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog import masking
from penstock.catalog.errors import ConfigError, OptionError, UnknownObjectError
from penstock.catalog.options import reference_rules
from penstock.catalog.options.option import STRING, Option, PrefixOption, resolve
from penstock.catalog.options.redaction import redact
from penstock.catalog.options.reference_rules import (
    FILE_ROOTS_VARIABLE,
    LARGEST_FILE,
    ReferenceRules,
    add_rules,
)
from penstock.catalog.options.references import (
    EnvReference,
    FileReference,
    SecretReference,
    references_in,
    reveal,
    sealed_text,
    shown_references,
)
from penstock.catalog.secrets import crypto
from penstock.catalog.secrets.crypto import KEY_VARIABLE, KeyRing, SealedSecret, new_key
from penstock.catalog.store.sql_catalog import SqlCatalog

KEYS = KeyRing(keys=(new_key(),))


def seal(name: str) -> SealedSecret:
    """A secret whose value is told by its name."""
    token = KEYS.encrypt(f"value-of-{name}", name=name)
    return SealedSecret(name=name, token=token, key_id=KEYS.current_id)


@pytest.fixture(autouse=True)
def one_key_and_nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has the key that `seal` uses."""
    monkeypatch.setattr(masking, "_values", set())
    monkeypatch.setattr(crypto, "_key_files", set())
    monkeypatch.setenv(KEY_VARIABLE, KEYS.keys[0])


def test_references_stand_anywhere_in_a_value() -> None:
    """Several too, beside other text; `$${` stands for the characters."""
    text = (
        "a ${secret:s-1.x} $${env:NO} ${env:A_1}${file:/run/x y}${file:/p.properties:db.password}"
    )

    assert references_in(text) == (
        SecretReference(name="s-1.x"),
        EnvReference(name="A_1"),
        FileReference(path="/run/x y"),
        FileReference(path="/p.properties", key="db.password"),
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("${secret:}", "${secret:name}"),
        ("${secret:a b}", "letters"),
        ("${env:1A}", "letters"),
        ("${secrets:a}", "did you mean 'secret'?"),
        ("${hunter2", "`$${` stands for the characters themselves"),
        ("pa${ss", "`$${` stands for the characters themselves"),
        ("${file:relative/path}", "an absolute path"),
        ("${vault:x}", "write ${secret:name}"),
    ],
)
def test_a_malformed_reference_is_refused_with_what_helps(text: str, hint: str) -> None:
    """It may be a password with these characters in it, so it is not repeated."""
    with pytest.raises(OptionError) as caught:
        references_in(text)

    assert hint in str(caught.value.hint)
    assert "hunter2" not in caught.value.message


def test_the_key_of_the_secrets_is_no_value_to_send() -> None:
    """A table definition would give it away."""
    with pytest.raises(OptionError, match="the key of the secrets itself"):
        references_in(f"${{env:{KEY_VARIABLE}}}")


def test_values_take_the_place_of_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all kinds; a file's last newline is not part of its text."""
    monkeypatch.setenv("PART", "from-env")
    (tmp_path / "plain").write_text("two\nlines\n", encoding="utf-8")
    (tmp_path / "p.properties").write_text("db.password = from-key\n", encoding="utf-8")
    text = f"<${{secret:s}}|${{env:PART}}|${{file:{tmp_path}/plain}}|${{file:{tmp_path}/p.properties:db.password}}|$${{"

    assert (
        reveal(sealed_text(text, seal), secret=True)
        == "<value-of-s|from-env|two\nlines|from-key|${"
    )


def test_a_revealed_secret_is_masked_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other values only where the option's own value would not be shown: a user's name is no secret."""
    monkeypatch.setenv("USER_NAME", "penstock-user")
    monkeypatch.setenv("USER_PASSWORD", "penstock-password")
    reveal(sealed_text("${secret:s}", seal), secret=False)
    reveal("${env:USER_NAME}", secret=False)
    reveal("${env:USER_PASSWORD}", secret=True)

    assert (
        masking.without_secrets("value-of-s penstock-user penstock-password")
        == "****** penstock-user ******"
    )


@given(
    st.text(alphabet=string.ascii_letters + "$ {}\\'\"", max_size=20).filter(
        lambda text: "${" not in text
    ),
    st.text(max_size=20).filter(lambda text: "${" not in text and not text.startswith("{")),
)
def test_other_text_stays_as_it_is(before: str, after: str) -> None:
    """Whatever stands around a reference, and in values without one."""
    assert reveal(f"{before}{after}", secret=True) == f"{before}{after}"
    if not before.endswith("$"):
        text = sealed_text(f"{before}${{secret:s}}{after}", seal)
        assert reveal(text, secret=True) == f"{before}value-of-s{after}"


def test_what_travels_holds_neither_value_nor_catalog() -> None:
    """The encrypted value stands beside the name; a person is shown the reference."""
    sealed = sealed_text("x ${secret:s} $${secret:t}", seal)

    assert "value-of-s" not in sealed
    assert shown_references(sealed) == "x ${secret:s} $${secret:t}"
    assert sealed_text(sealed, seal) == sealed


def test_a_secret_that_was_not_sealed_is_not_looked_for() -> None:
    """The process that connects has no catalog to ask."""
    with pytest.raises(OptionError, match="did not reach the process"):
        reveal("${secret:s}", secret=True)


def test_what_is_not_there_is_named_with_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable, a file, a key of a file."""
    monkeypatch.setenv("KAFKA_PASSWORD_X", "abc")
    (tmp_path / "password.txt").write_text("a.b=1", encoding="utf-8")
    missing = {
        "${env:KAFKA_PASWORD_X}": "KAFKA_PASSWORD_X",
        f"${{file:{tmp_path}/pasword.txt}}": "password.txt",
        f"${{file:{tmp_path}/password.txt:a.c}}": "a.b",
    }

    for text, near in missing.items():
        with pytest.raises(UnknownObjectError) as caught:
            reveal(text, secret=True)
        assert caught.value.hint == f"did you mean {near!r}?"


def test_a_file_is_small_text(tmp_path: Path) -> None:
    """A device or a dump is no password."""
    large, binary = tmp_path / "large", tmp_path / "binary"
    large.write_bytes(b"x" * ((1 << 20) + 1))
    binary.write_bytes(b"\xff\xfe\x00")

    for file in (large, binary, tmp_path):
        with pytest.raises(ConfigError):
            reveal(f"${{file:{file}}}", secret=True)


KNOWN = (
    Option(key="password", type=STRING, default=None, doc="d", references=True),
    Option(key="path", type=STRING, default=None, doc="d"),
    PrefixOption(prefix="properties.", doc="d", references=frozenset({"sasl.password"})),
)


def test_options_say_whether_they_take_references() -> None:
    """The value stays a reference; whoever connects reveals it."""
    options = {"password": "${secret:s}", "properties.sasl.password": "x${env:P}"}
    resolved = resolve(options, KNOWN, owner="table t")

    assert resolved.get(KNOWN[0]) == "${secret:s}"
    assert resolved.prefixed("properties.") == {"sasl.password": "x${env:P}"}


@pytest.mark.parametrize("key", ["path", "properties.client.id"])
def test_a_reference_is_refused_where_nobody_would_reveal_it(key: str) -> None:
    """The error names the options that take some."""
    with pytest.raises(OptionError, match=f"option '{key}' does not take references") as caught:
        resolve({key: "/data/${env:REGION}"}, KNOWN, owner="table t")

    assert "password, properties.sasl.password" in str(caught.value.hint)
    assert "{{ env_var('NAME') }}" in str(caught.value.hint)


def test_a_dollar_in_other_options_means_nothing() -> None:
    """A regular expression may have one."""
    assert resolve({"path": "a${2}$"}, KNOWN, owner="table t").get(KNOWN[1]) == "a${2}$"


def test_a_malformed_reference_is_told_with_its_option() -> None:
    """When the table is defined, not when it is read."""
    with pytest.raises(OptionError, match=r"table t: option 'password': `\${` begins a reference"):
        resolve({"password": "pa${ss"}, KNOWN, owner="table t")


def test_references_are_shown_and_values_beside_them_are_not() -> None:
    """Also those that were sealed, by their names."""
    sealed = sealed_text("${secret:s}", seal)
    shown = redact({"password": sealed, "jaas": "x ${secret:s}", "url": "http://u:${env:P}@h/"})

    assert shown == {"password": "${secret:s}", "jaas": "******", "url": "http://******@h/"}


def test_a_file_of_the_kernel_or_a_device_is_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/proc/self/environ` has the key in it and says that it is empty; a link to it is no other file."""
    monkeypatch.setenv("ANY_PASSWORD", "hunter2")
    (tmp_path / "innocent").symlink_to("/proc/self/environ")
    (tmp_path / "folder").symlink_to("/proc/self")
    os.mkfifo(tmp_path / "pipe")

    for path in (
        "/proc/self/environ",
        "/proc/self/../self/environ",
        "/dev/zero",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        f"{tmp_path}/innocent",
        f"{tmp_path}/folder/environ",
        f"{tmp_path}/pipe",
        str(tmp_path),
    ):
        with pytest.raises((OptionError, ConfigError, UnknownObjectError)) as caught:
            reveal(f"${{file:{path}}}", secret=True)
        assert "hunter2" not in str(caught.value)


def test_a_file_is_read_to_its_limit_and_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that grows while it is read is refused as one that was larger from the beginning."""
    file = tmp_path / "ca.pem"
    file.write_text("x" * LARGEST_FILE, encoding="utf-8")
    assert len(reveal(f"${{file:{file}}}", secret=False)) == LARGEST_FILE

    file.write_text("x" * (LARGEST_FILE + 1), encoding="utf-8")
    asked: list[int] = []
    real_read, real_fstat = os.read, os.fstat

    def smaller(handle: int) -> os.stat_result:
        found = list(real_fstat(handle))
        found[6] = 10
        return os.stat_result(found)

    def counted(handle: int, size: int) -> bytes:
        asked.append(size)
        return real_read(handle, size)

    monkeypatch.setattr(os, "fstat", smaller)
    monkeypatch.setattr(os, "read", counted)
    with pytest.raises(ConfigError, match="larger than"):
        reveal(f"${{file:{file}}}", secret=False)
    assert max(asked) == LARGEST_FILE + 1


def test_the_file_of_the_keys_is_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under its own name, a link's, a second name's, as a copy, or as a line of another file."""
    monkeypatch.delenv(KEY_VARIABLE)
    catalog = SqlCatalog(f"sqlite:///{tmp_path}/catalog.db")
    catalog.secrets.create("one", "value-of-one")
    key = (tmp_path / "secret.key").read_text(encoding="ascii").strip()
    (tmp_path / "linked").symlink_to(tmp_path / "secret.key")
    os.link(tmp_path / "secret.key", tmp_path / "second")
    (tmp_path / "copy").write_text(key, encoding="ascii")
    (tmp_path / "p.properties").write_text(f"{KEY_VARIABLE}={key}\n", encoding="ascii")
    monkeypatch.setenv("INNOCENT", f"a,{key}")

    for reference in (
        f"${{file:{tmp_path}/secret.key}}",
        f"${{file:{tmp_path}/linked}}",
        f"${{file:{tmp_path}/second}}",
        f"${{file:{tmp_path}/copy}}",
        f"${{file:{tmp_path}/p.properties}}",
        f"${{file:{tmp_path}/p.properties:{KEY_VARIABLE}}}",
        "${env:INNOCENT}",
    ):
        with pytest.raises(OptionError, match="key of the secrets itself") as caught:
            reveal(reference, secret=True)
        assert key not in str(caught.value)


def test_files_and_variables_stay_within_the_rules_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that leads out of the folders is out of them; the environment's rule holds beside the project's."""
    monkeypatch.setattr(reference_rules, "_of_projects", {})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "password").write_text("inside", encoding="utf-8")
    (tmp_path / "outside").write_text("outside", encoding="utf-8")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "outside")
    monkeypatch.setenv("APP_PASSWORD", "of-app")
    monkeypatch.setenv("CI_TOKEN", "of-ci")
    add_rules(ReferenceRules(file_roots=(tmp_path / "in",), env_prefix="APP_"))

    assert reveal(f"${{file:{tmp_path}/in/password}}${{env:APP_PASSWORD}}", secret=True) == (
        "insideof-app"
    )
    for path in ("outside", "in/link", "in/../outside"):
        with pytest.raises(OptionError, match="none of the folders"):
            reveal(f"${{file:{tmp_path}/{path}}}", secret=True)
    with pytest.raises(OptionError, match="begin with APP_ alone"):
        reveal("${env:CI_TOKEN}", secret=True)

    monkeypatch.setenv(FILE_ROOTS_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(OptionError, match="none of the folders"):
        reveal(f"${{file:{tmp_path}/in/password}}", secret=True)


def test_a_link_that_moves_leads_out_of_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that the rules are held against is the one that is read, however many rules there are."""
    monkeypatch.setattr(reference_rules, "_of_projects", {})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "password").write_text("inside", encoding="utf-8")
    (tmp_path / "outside").write_text("outside", encoding="utf-8")
    link = tmp_path / "link"
    opened = os.open

    def open_and_move(path: Path, flags: int) -> int:
        handle = opened(path, flags)
        link.unlink()
        link.symlink_to(tmp_path / "outside")
        return handle

    link.symlink_to(tmp_path / "in" / "password")
    add_rules(ReferenceRules(file_roots=(tmp_path / "in",)))
    with monkeypatch.context() as moving:
        moving.setattr(os, "open", open_and_move)
        assert reveal(f"${{file:{link}}}", secret=True) == "inside"
    with pytest.raises(OptionError, match="none of the folders"):
        reveal(f"${{file:{link}}}", secret=True)
