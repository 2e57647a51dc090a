"""Pinned jars: the cache, its check, and what is said when they cannot be had. Nothing is fetched here."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from penstock.catalog.errors import RunError
from penstock.connector.delta.connector import delta_jar_set
from penstock.connector.jvm import jars
from penstock.connector.kafka.broker.broker import broker_jar_set

CONTENT = b"a jar"


@pytest.fixture
def jar_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> jars.JarSet:
    """A set of one jar and an empty cache."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    pins = tmp_path / "things.jars"
    digest = hashlib.sha256(CONTENT).hexdigest()
    pins.write_text(f"# Things\norg.things:thing:1.2 {len(CONTENT)} {digest}\n")
    return jars.read_jar_set(pins)


def fetching(content: bytes) -> object:
    """A stand-in for Ivy that brings this content."""

    def run_ivy(jar_set: jars.JarSet, _work: Path, fetched: Path) -> None:
        fetched.mkdir()
        for jar in jar_set.jars:
            (fetched / jar.file_name).write_bytes(content)

    return run_ivy


def test_jars_are_fetched_once(jar_set: jars.JarSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call finds them in the cache and asks nobody."""
    monkeypatch.setattr(jars, "run_ivy", fetching(CONTENT))
    first = jars.fetch_jars(jar_set)
    monkeypatch.setattr(jars, "run_ivy", None)

    assert jars.fetch_jars(jar_set) == first
    assert first == [jar_set.folder() / "thing-1.2.jar"]
    assert first[0].read_bytes() == CONTENT


def test_a_jar_that_is_not_the_pinned_one_is_refused(
    jar_set: jars.JarSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hash tells, and nothing of it stays behind."""
    monkeypatch.setattr(jars, "run_ivy", fetching(b"else!"))

    with pytest.raises(RunError, match="is not the jar it should be"):
        jars.fetch_jars(jar_set)

    assert not jar_set.folder().exists()
    assert [path.suffix for path in jar_set.folder().parent.iterdir()] == [".lock"]


def test_half_a_set_is_fetched_anew(jar_set: jars.JarSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another size is not taken for the jar."""
    jar_set.folder().mkdir(parents=True)
    (jar_set.folder() / "thing-1.2.jar").write_bytes(b"a")
    monkeypatch.setattr(jars, "run_ivy", fetching(CONTENT))

    assert jars.fetch_jars(jar_set)[0].read_bytes() == CONTENT


def test_a_machine_off_line_is_told_what_to_do(
    jar_set: jars.JarSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is Ivy's own line, the hint names the proxy, the mirror and the folder to copy."""
    said = "\t:: things\n\tServer access error (java.net.UnknownHostException: central)\n"
    monkeypatch.setattr(jars, "run", lambda _: (said, 1))

    with pytest.raises(RunError) as caught:
        jars.fetch_jars(jar_set)

    assert "UnknownHostException" in caught.value.message
    assert str(jar_set.folder()) in str(caught.value.hint)


@pytest.mark.parametrize(
    "pinned", [broker_jar_set(), delta_jar_set()], ids=lambda pinned: pinned.name
)
def test_the_product_pins_every_jar_by_hash(pinned: jars.JarSet) -> None:
    """No version ranges, no file twice, a full SHA-256 for each."""
    assert all(len(jar.sha256) == 64 and jar.size > 0 for jar in pinned.jars)
    assert len({jar.file_name for jar in pinned.jars}) == len(pinned.jars)


def test_a_cached_jar_that_was_changed_is_not_loaded(
    jar_set: jars.JarSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the same size too: the cache may be a folder that others write to."""
    monkeypatch.setattr(jars, "run_ivy", fetching(CONTENT))
    (jar,) = jars.fetch_jars(jar_set)
    jar.write_bytes(b"b" * len(CONTENT))

    with pytest.raises(RunError, match="is not the jar it should be") as caught:
        jars.fetch_jars(jar_set)
    assert f"remove {jar.parent}" in (caught.value.hint or "")
