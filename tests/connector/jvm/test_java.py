"""Finding Java: which one is taken, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import InputError
from penstock.connector.jvm import java


def installation(folder: Path, version: str) -> Path:
    """A folder that looks like a Java of this version."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("25-ea", 25), ("x", None)]
)
def test_old_and_new_version_texts_are_understood(text: str, version: int | None) -> None:
    """Before Java 9 the feature version stood second."""
    assert java.feature_version(text) == version


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    """JAVA_HOME is what Spark's own launcher looks at first."""
    named = installation(tmp_path / "named", "21.0.1")
    on_path = installation(tmp_path / "path", "17.0.1")

    found = java.find_java({"JAVA_HOME": str(named), "PATH": str(on_path / "bin")})

    assert found == java.JavaHome(path=named, version=21)


def test_a_too_old_java_home_is_passed_over(tmp_path: Path) -> None:
    """A fitting Java elsewhere is better than an error."""
    old = installation(tmp_path / "old", "11.0.2")
    fitting = installation(tmp_path / "fitting", "17.0.1")

    found = java.find_java({"JAVA_HOME": str(old), "PATH": str(fitting / "bin")})

    assert found.path == fitting


def test_no_fitting_java_names_what_was_found_and_how_to_install_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message with a command for each system."""
    old = installation(tmp_path / "old", "1.8.0_392")
    monkeypatch.setattr(java, "unfiltered_candidates", lambda _: iter([old]))

    with pytest.raises(InputError) as caught:
        java.find_java({})

    assert caught.value.message == f"Java 17 or newer is needed, found only Java 8 in {old}"
    for command in ("apt-get install", "dnf install", "brew install", "winget install"):
        assert command in str(caught.value.hint)


def test_a_folder_without_a_launcher_is_no_java(tmp_path: Path) -> None:
    """A leftover folder does not count."""
    assert java.version_of(tmp_path) is None


def test_a_launcher_without_a_release_file_is_asked_itself(tmp_path: Path) -> None:
    """Some distributions leave the file out."""
    home = installation(tmp_path, "17")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"19.0.2\" 2023' >&2\n")

    assert java.version_of(home) == 19


def test_an_unfit_java_home_is_named_with_the_reason(tmp_path: Path) -> None:
    """Another Java is taken in its place, which must not happen without a word."""
    missing, old = tmp_path / "missing", installation(tmp_path / "old", "1.8.0_402")
    fitting = installation(tmp_path / "fitting", "17.0.9")

    assert java.unfit_java_home({"JAVA_HOME": str(missing)}) == (
        f"JAVA_HOME is {missing}, where there is no working Java"
    )
    assert java.unfit_java_home({"JAVA_HOME": str(old)}) == (
        f"JAVA_HOME is {old}, a Java 8; 17 or newer is needed"
    )
    assert java.unfit_java_home({"JAVA_HOME": str(fitting)}) is None
    assert java.unfit_java_home({}) is None
