"""Class data archives: one is mapped, one that does not fit costs nothing, and nobody else's is used.

Each is of a small program: Ivy, which ships with Spark, telling its version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.catalog.errors import RunError
from penstock.connector.jvm import class_data
from penstock.connector.jvm.class_data import (
    SWITCH,
    Archive,
    archive_of,
    fits,
    is_trusted,
    make_archive,
    start_options,
)
from penstock.connector.jvm.jars import ivy_jar
from penstock.connector.jvm.java import find_java

pytestmark = pytest.mark.slow


def run(archive: Archive, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the program with options of Java."""
    jars = os.pathsep.join(map(str, archive.class_path))
    environment = {key: value for key, value in os.environ.items() if key != "JDK_JAVA_OPTIONS"}
    return subprocess.run(
        [archive.java.executable, *options, "-cp", jars, "org.apache.ivy.Main", "-version"],
        env=environment,  # Java says on stderr that it has options from there
        capture_output=True,
        text=True,
        check=True,
    )


def make(archive: Archive) -> bool:
    """Record the program."""
    return make_archive(archive, lambda options: run(archive, options))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """An archive, which tests copy."""
    folder = tmp_path_factory.mktemp("made")
    jar = folder / "ivy.jar"
    shutil.copy2(ivy_jar(), jar)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_CACHE", str(folder / "cache"))
        archive = archive_of(find_java(), [jar])
    assert make(archive)
    return archive


@pytest.fixture
def archive(made: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """A copy of the archive that a test may spoil."""
    monkeypatch.delenv(SWITCH, raising=False)
    file = tmp_path / made.file.name
    shutil.copy2(made.file, file)
    return replace(made, file=file)


def test_a_start_with_an_archive_takes_its_classes_from_it(archive: Archive) -> None:
    """And prints what it prints without."""
    options = start_options(archive)
    started = run(archive, [*options, "-Xlog:class+load:file=/dev/stderr"])

    assert "org.apache.ivy.Main source: shared objects file (top)" in started.stderr
    assert started.stdout == run(archive, ()).stdout
    assert fits(archive)


def test_an_archive_is_made_once(made: Archive) -> None:
    """The second call finds it and records nothing."""
    assert not make_archive(made, lambda _: pytest.fail("recorded again"))


@pytest.mark.parametrize("damage", ["cut", "empty", "other bytes", "flipped"])
def test_a_broken_archive_fails_no_start(archive: Archive, damage: str) -> None:
    """The program runs as without one, and Java says nothing of it."""
    content = bytearray(archive.file.read_bytes())
    match damage:
        case "cut":
            del content[len(content) // 2 :]
        case "empty":
            content.clear()
        case "other bytes":
            content[:] = b"no archive" * 1000
        case _:
            for place in range(len(content) // 4, len(content), 1 << 12):
                content[place] ^= 0xFF
    archive.file.chmod(0o600)
    archive.file.write_bytes(content)
    started = run(archive, start_options(archive))

    assert (started.stdout, started.stderr) == (run(archive, ()).stdout, "")
    assert not fits(archive)


def test_a_jar_that_changed_has_another_archive_and_fails_no_start(
    archive: Archive, tmp_path: Path
) -> None:
    """Java compares the jars as well, for one that changes between our look and its own."""
    jar = tmp_path / "ivy.jar"
    shutil.copy2(archive.class_path[0], jar)
    changed = replace(archive, class_path=(jar,))
    before = archive_of(changed.java, [jar]).file
    os.utime(jar, ns=(1, 1))
    started = run(changed, start_options(changed))

    assert archive_of(changed.java, [jar]).file != before
    assert (started.stdout, started.stderr) == (run(changed, ()).stdout, "")
    assert not fits(changed)


def test_an_archive_that_others_may_write_is_not_mapped(archive: Archive) -> None:
    """Java does not verify the classes in it again."""
    assert start_options(archive)
    archive.file.chmod(0o620)
    assert not start_options(archive)
    archive.file.chmod(0o600)
    archive.file.parent.chmod(0o770)
    assert not start_options(archive)
    archive.file.parent.chmod(0o1777)
    assert start_options(archive)


def test_a_link_is_no_archive(archive: Archive, tmp_path: Path) -> None:
    """Its owner may point it elsewhere at any time."""
    link = tmp_path / "link.jsa"
    link.symlink_to(archive.file)

    assert not is_trusted(link)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_an_archive_of_another_account_is_not_mapped(archive: Archive) -> None:
    """Whatever its mode is."""
    os.chown(archive.file, 12345, 12345)

    assert not start_options(archive)


def test_archives_are_turned_off_by_a_variable(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PENSTOCK_CLASS_DATA=0."""
    monkeypatch.setenv(SWITCH, "0")

    assert start_options(archive) == ()


def test_a_recording_that_writes_nothing_leaves_nothing(archive: Archive) -> None:
    """Nor what another one left that was killed; the next one may begin."""
    archive.file.unlink()
    killed = archive.file.parent / ".recording-killed"
    killed.mkdir()
    (killed / "half.jsa").write_bytes(b"half")

    with pytest.raises(RunError, match="wrote no class data archive"):
        make_archive(archive, lambda _: None)
    assert [path.name for path in archive.file.parent.iterdir()] == ["lock"]
    assert make(archive)
    assert fits(archive)


def test_the_archives_used_last_are_kept(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start counts as use."""
    monkeypatch.setattr(class_data, "KEPT", 2)
    folder = archive.file.parent
    for number in range(3):
        shutil.copy2(archive.file, folder / f"other{number}.jsa")
        os.utime(folder / f"other{number}.jsa", (number, number))
    used = replace(archive, file=folder / "other0.jsa")
    assert start_options(used)
    archive.file.unlink()
    assert make(archive)

    assert {file.name for file in folder.glob("*.jsa")} == {archive.file.name, "other0.jsa"}
