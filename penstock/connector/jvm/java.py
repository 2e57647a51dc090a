"""Finds a Java that Spark and the embedded broker can run on, and says how to install one.

Owns the version rule and the message; starts nothing else. Standard library only: the Makefile runs it
(`python -m penstock.connector.jvm.java`) before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


MINIMUM_VERSION = 17
"""Spark 4 and Kafka 4 brokers need it."""

INSTALL_HINT = """install one with
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless
  Fedora:          sudo dnf install java-21-openjdk-headless
  macOS:           brew install openjdk@17
  Windows:         winget install EclipseAdoptium.Temurin.17.JRE
or point JAVA_HOME at one"""

VERSION_TIMEOUT_S = 20
"""`java -version` takes 50 ms; a stub that opens a dialogue instead must not hang us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaHome:
    """A Java installation: its folder and feature version (17, 21, ...)."""

    path: Path
    version: int

    @property
    def executable(self) -> Path:
        """The `java` launcher."""
        return self.path / "bin" / ("java.exe" if os.name == "nt" else "java")


def find_java(environment: Mapping[str, str] | None = None) -> JavaHome:
    """The first Java of at least MINIMUM_VERSION: JAVA_HOME, then PATH, then where systems keep them.

    Raises InputError with the install command of each system when there is none.
    """
    environment = os.environ if environment is None else environment
    rejected: list[str] = []
    for home in candidates(environment):
        version = version_of(home)
        if version is not None and version >= MINIMUM_VERSION:
            return JavaHome(path=home, version=version)
        if version is not None:
            rejected.append(f"Java {version} in {home}")
    found = f"found only {', '.join(dict.fromkeys(rejected))}" if rejected else "found none"
    raise InputError(f"Java {MINIMUM_VERSION} or newer is needed, {found}", hint=INSTALL_HINT)


def unfit_java_home(environment: Mapping[str, str] | None = None) -> str | None:
    """Explain why the Java that JAVA_HOME names is passed over; None where it fits or none is named."""
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    if not home:
        return None
    version = version_of(Path(home))
    if version is None:
        return f"JAVA_HOME is {home}, where there is no working Java"
    if version < MINIMUM_VERSION:
        return f"JAVA_HOME is {home}, a Java {version}; {MINIMUM_VERSION} or newer is needed"
    return None


def candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    """Folders that may hold a Java, best first, each once."""
    seen: set[Path] = set()
    for home in unfiltered_candidates(environment):
        if home.resolve() not in seen:
            seen.add(home.resolve())
            yield home


def unfiltered_candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    """JAVA_HOME, the `java` on PATH, then the places package managers use."""
    if home := environment.get("JAVA_HOME"):
        yield Path(home)
    if launcher := shutil.which("java", path=environment.get("PATH")):
        yield Path(launcher).resolve().parent.parent
    for parent, pattern in (
        ("/usr/lib/jvm", "*"),
        ("/opt/homebrew/opt", "openjdk*/libexec/openjdk.jdk/Contents/Home"),
        ("/usr/local/opt", "openjdk*/libexec/openjdk.jdk/Contents/Home"),
        ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
        ("C:/Program Files/Eclipse Adoptium", "*"),
    ):
        if os.path.isdir(parent):  # noqa: PTH112 (Path.is_dir raises on unreadable parents before 3.12)
            yield from sorted(Path(parent).glob(pattern))


def version_of(home: Path) -> int | None:
    """Feature version of the Java in `home`; None when there is no working one."""
    launcher = home / "bin" / ("java.exe" if os.name == "nt" else "java")
    if not launcher.is_file():
        return None
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    match = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return feature_version(match.group(1)) if match else version_by_running(launcher)


def version_by_running(launcher: Path) -> int | None:
    """Return the version by running the launcher, for installations without a `release` file."""
    command = [str(launcher), "-version"]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', run.stderr + run.stdout)
    return feature_version(match.group(1)) if match else None


def feature_version(text: str) -> int | None:
    """17 for "17.0.15", 8 for the old "1.8.0_392"."""
    match = re.match(r"(?:1\.)?(\d+)", text)
    return int(match.group(1)) if match else None


def main() -> int:
    """Exit status 0 and silence when there is a fitting Java, else 2 and the message."""
    try:
        find_java()
    except InputError as error:
        sys.stderr.write(f"error: {error.message}\n{error.hint}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
