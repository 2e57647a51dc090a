"""Fetches pinned sets of jars from Maven Central, once a machine, through the Ivy that ships inside pyspark.

Owns the cache (`$PENSTOCK_CACHE`, else `~/.cache/penstock`), its lock and the check of every file's SHA-256.
What is in a set is data (`*.jars` files beside the code that needs them): every jar is named, so nothing is
resolved, and no repository is named: Ivy's own default is Maven Central. Knows neither Spark nor Kafka.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from penstock.catalog.errors import RunError
from penstock.connector.jvm.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator


LOG = logging.getLogger(__name__)

ATTEMPTS = 3
"""A dropped connection costs one attempt; what was fetched before it stays in Ivy's cache."""

FETCH_TIMEOUT_S = 900
"""For one attempt. The largest set is 45 MB; 11 s on an ordinary line."""

SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""

OFFLINE_HINT = (
    "they are fetched once, from Maven Central: is this machine on line?\n"
    "Behind a proxy set JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=... -Dhttps.proxyPort=...';\n"
    "for a mirror set PENSTOCK_IVY_SETTINGS to an ivysettings.xml of yours;\n"
    "or copy the folder {folder} from a machine that has it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One pinned jar: Maven coordinates, size in bytes, SHA-256 in hex."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """The jar's name in the cache, as Maven spells it."""
        return f"{self.artifact}-{self.version}.jar"


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """Jars that are used together. Its version is that of the first jar, the one the others serve."""

    name: str
    title: str
    jars: tuple[Jar, ...]

    @property
    def version(self) -> str:
        """Version of the leading jar."""
        return self.jars[0].version

    @property
    def size(self) -> int:
        """Bytes of all jars."""
        return sum(jar.size for jar in self.jars)

    def folder(self) -> Path:
        """Where the cache keeps it."""
        return cache_directory() / "jars" / f"{self.name}-{self.version}"


def read_jar_set(path: Path) -> JarSet:
    """The set described by a `*.jars` file: a title line (`# ...`), then `group:artifact:version size sha256`."""
    title, *lines = path.read_text(encoding="utf-8").splitlines()
    return JarSet(
        name=path.stem,
        title=title.removeprefix("#").strip(),
        jars=tuple(parse_jar(line) for line in lines if line and not line.startswith("#")),
    )


def parse_jar(line: str) -> Jar:
    """One line of a `*.jars` file."""
    coordinates, size, sha256 = line.split()
    group, artifact, version = coordinates.split(":")
    return Jar(group=group, artifact=artifact, version=version, size=int(size), sha256=sha256)


def cache_directory() -> Path:
    """`$PENSTOCK_CACHE`, else `~/.cache/penstock`."""
    named = os.environ.get("PENSTOCK_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "penstock"


def fetch_jars(jar_set: JarSet) -> list[Path]:
    """The set's files in the order of the pins, fetched first when this machine does not have them all.

    Safe against a second process doing the same. Raises RunError when a jar cannot be had or is not the one
    that was pinned.
    """
    folder = jar_set.folder()
    if not is_complete(jar_set, folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.with_name(f"{folder.name}.lock")):
            if not is_complete(jar_set, folder):
                install(jar_set, folder)
    for jar in jar_set.jars:
        check(jar, folder / jar.file_name, where=f"remove {folder}: it is downloaded again")
    return [folder / jar.file_name for jar in jar_set.jars]


def is_complete(jar_set: JarSet, folder: Path) -> bool:
    """Whether every file exists in its full size; `fetch_jars` checks the hashes too."""
    try:
        return all((folder / jar.file_name).stat().st_size == jar.size for jar in jar_set.jars)
    except OSError:
        return False


def install(jar_set: JarSet, folder: Path) -> None:
    """Fetch into a folder beside the final one, check, and rename: no process ever sees a partial set."""
    LOG.info(
        "fetching %s (%d jars, %d MB) from Maven Central, this once",
        jar_set.title,
        len(jar_set.jars),
        jar_set.size // 1_000_000,
    )
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        fetched = work / "jars"
        run_ivy(jar_set, work, fetched)
        for jar in jar_set.jars:
            check(jar, fetched / jar.file_name)
        if folder.exists():
            folder.rename(work / "incomplete")
        fetched.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def check(jar: Jar, path: Path, *, where: str | None = None) -> None:
    """Raise RunError unless the file is the one that was pinned: 15 MB of Delta take 40 ms."""
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "nothing"
    if found != jar.sha256:
        raise RunError(
            f"{jar.group}:{jar.artifact}:{jar.version} is not the jar it should be: "
            f"its SHA-256 is {found}, expected {jar.sha256}",
            hint=where
            or "something between this machine and Maven Central changes files; nothing was installed",
        )


def run_ivy(jar_set: JarSet, work: Path, fetched: Path) -> None:
    """Fetch the pinned jars into `fetched` by Ivy; raises RunError with Ivy's own reason."""
    settings = os.environ.get("PENSTOCK_IVY_SETTINGS")
    if not settings:
        settings = str(work / "ivysettings.xml")
        Path(settings).write_text(SETTINGS, encoding="utf-8")
    module = work / "ivy.xml"
    module.write_text(ivy_module(jar_set), encoding="utf-8")
    command = [str(find_java().executable), "-cp", str(ivy_jar()), "org.apache.ivy.Main"]
    command += ["-settings", settings, "-ivy", str(module), "-cache", str(work / "cache")]
    command += [
        "-confs",
        "default",
        "-retrieve",
        f"{fetched.as_posix()}/[artifact]-[revision].[ext]",
    ]
    output = ""
    for _ in range(ATTEMPTS):
        output, status = run(command)
        if status == 0:
            return
    raise RunError(
        f"the jars of {jar_set.title} could not be fetched: {reason(output)}",
        hint=OFFLINE_HINT.format(folder=jar_set.folder()),
    )


def run(command: list[str]) -> tuple[str, int]:
    """Output and exit status of a command that may hang on a dead line."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            check=False,
            timeout=FETCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {FETCH_TIMEOUT_S} s", 1
    return done.stdout, done.returncode


def reason(output: str) -> str:
    """The line of Ivy's output that says most: the first about a host, a server's answer or a missing module."""
    lines = [line.strip(": \t") for line in output.splitlines()]
    for mark in (
        "UnknownHost",
        "ConnectException",
        "timed out",
        "SSL",
        "Server access",
        "not found",
    ):
        for line in lines:
            if mark in line:
                return line[:200]
    return next((line for line in reversed(lines) if line), "Ivy said nothing")[:200]


def ivy_module(jar_set: JarSet) -> str:
    """An ivy.xml that asks for exactly these jars, no more."""
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)}"
        f' rev={quoteattr(jar.version)} conf="default-&gt;*" transitive="false">'
        f'<artifact name={quoteattr(jar.artifact)} type="jar" ext="jar"/></dependency>'
        for jar in jar_set.jars
    )
    return (
        '<ivy-module version="2.0">\n'
        f'  <info organisation="penstock" module={quoteattr(jar_set.name)}/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n"
        "</ivy-module>\n"
    )


def ivy_jar() -> Path:
    """Ivy as Spark ships it. pyspark is only looked up, not imported."""
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        for path in Path(location, "jars").glob("ivy-*.jar"):
            return path
    raise RunError(
        "pyspark's own jars are missing", hint="pip install --force-reinstall pyspark==4.2.0"
    )


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path` exclusively; the system releases it when this process dies."""
    with path.open("a+b") as file:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
