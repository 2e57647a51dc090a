"""Class data archives: classes as Java has parsed and verified them, in a file that later processes map into memory.

Owns where archives are kept (`class-data` in the cache), which one belongs to a Java and a class path, whose files may
be mapped, and Java's options. Java itself compares an archive with its own release and with the jars, and starts
without one that does not fit. Called by `sql/spark_process` and `penstock prepare`; what is recorded is in
`sql/session/recording.py`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import ConfigError, RunError
from penstock.catalog.secrets.private_folder import make_private_folder
from penstock.connector.jvm.jars import cache_directory, exclusive
from penstock.connector.jvm.java import JavaHome

SWITCH = "PENSTOCK_CLASS_DATA"
"""Set to 0, Java processes start without an archive."""

RECORDING = 1
"""What is run for a recording. A new number makes archives of before unused."""

KEPT = 3
"""Archives that a user keeps, of some 200 MB each: one for each environment. The least recently used are removed."""

CHECK_TIMEOUT_S = 60
"""For a Java process that maps an archive and ends: half a second."""

_QUIET = ("-Xlog:cds*=off", "-Xlog:class+path*=off")
"""Java warns on stdout of an archive that does not fit, and goes on without it."""

_VERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+VerifySharedSpaces")
"""Checksums of the whole file, in a tenth of a second: Java would crash on one that a bad disk changed."""

_SEAL = b"penstock whole archive of %020d bytes"
"""The end of an archive, with the size of what Java wrote before it: Java would crash on a file that was cut."""

_NO_ARCHIVE_HINT = (
    "Spark starts without one, only slower. It lies on Java's own archive (lib/server/classes.jsa), which "
    "`java -Xshare:dump` makes where it is missing; or the disk of the cache is full"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The place of an archive, and what it is made of: a Java, and jars in the order of the class path."""

    file: Path
    java: JavaHome
    class_path: tuple[Path, ...]


def archive_of(java: JavaHome, class_path: Sequence[Path]) -> Archive:
    """Name the archive of a Java and a class path. Another release of either, or a changed jar, has another name.

    Raises OSError for a jar that is not there.
    """
    digest = hashlib.sha256(f"{RECORDING} {java.path.resolve()}".encode())
    for file in (java.path / "release", *class_path):
        found = file.stat()
        digest.update(f"\n{file} {found.st_size} {found.st_mtime_ns}".encode())
    folder = cache_directory().absolute() / "class-data"
    file = folder / f"java{java.version}-{digest.hexdigest()[:16]}.jsa"
    return Archive(file=file, java=java, class_path=tuple(class_path))


def start_options(archive: Archive) -> tuple[str, ...]:
    """Return Java's options for a start with an archive; none where it is off, is not there or is not trusted."""
    if is_off() or not is_usable(archive.file):
        return ()
    with suppress(OSError):  # what was used last stays; a read-only folder keeps all
        os.utime(archive.file)
    return _mapping(archive.file)


def _mapping(file: Path) -> tuple[str, ...]:
    return (f"-XX:SharedArchiveFile={file}", "-Xshare:auto", *_VERIFIED, *_QUIET)


def is_off() -> bool:
    """Return whether the user turned archives off."""
    return os.environ.get(SWITCH) == "0"


def is_usable(file: Path) -> bool:
    """Return whether a file is a whole archive that nobody else can have written."""
    return is_trusted(file) and _is_sealed(file)


def is_trusted(file: Path) -> bool:
    """Return whether only this user or root can have written a file: Java does not verify classes that are in it."""
    try:
        found = file.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and _is_ours(found) and is_private(file.parent)


def is_private(folder: Path) -> bool:
    """Return whether only this user and root may change a folder and those above it.

    Nobody renames another's files in those like /tmp. False where the system has no such permissions.
    """
    if os.name != "posix":
        return False
    above = {folder, *folder.parents, folder.resolve(), *folder.resolve().parents}
    try:
        return all(_is_ours(each.stat()) for each in above)
    except OSError:
        return False


def _is_ours(found: os.stat_result) -> bool:
    if found.st_uid not in {os.geteuid(), 0}:
        return False
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    return bool(sticky) or not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def fits(archive: Archive) -> bool:
    """Return whether Java maps an archive, by starting it once with nothing to run."""
    return _is_sealed(archive.file) and _is_mapped(archive, archive.file)


def make_archive(archive: Archive, record: Callable[[tuple[str, ...]], None]) -> bool:
    """Make an archive that is not there; False: it is. `record` runs a Java process with the options that it is given.

    The file is written under another name, checked, and renamed: no process sees a part of it, or two that make it at
    once. Raises ConfigError where others may write as well, RunError when Java writes none, OSError where the cache
    cannot be written to.
    """
    folder = archive.file.parent
    make_private_folder(folder)
    if not is_private(folder):
        raise ConfigError(
            f"other accounts may write to {folder} or to a folder above it: Java would run what they put there",
            hint="chmod go-w those folders, or set PENSTOCK_CACHE to a folder of yours",
        )
    with exclusive(folder / "lock"):
        if is_usable(archive.file) and fits(archive):
            return False
        for left in folder.glob(".recording-*"):  # by processes that were killed: the lock is ours
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=".recording-", dir=folder) as work:
            written = Path(work) / archive.file.name
            record((f"-XX:ArchiveClassesAtExit={written}", *_QUIET))
            if not _is_mapped(archive, written):
                raise RunError(
                    f"{archive.java.executable} wrote no class data archive that it can use",
                    hint=_NO_ARCHIVE_HINT,
                )
            _seal(written)
            written.replace(archive.file)
        _remove_least_used(folder)
    return True


def _is_mapped(archive: Archive, file: Path) -> bool:
    """Start Java with nothing to run, which fails where it cannot map the file."""
    jars = os.pathsep.join(map(str, archive.class_path))
    options = (*_mapping(file), "-Xshare:on")
    try:
        done = subprocess.run(
            [archive.java.executable, *options, "-cp", jars, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CHECK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _seal(file: Path) -> None:
    """Write the end of an archive, and bring it to the disk before it gets its name: it is whole or not there."""
    file.chmod(0o600)
    with file.open("ab") as opened:
        opened.write(_SEAL % opened.tell())
        opened.flush()
        os.fsync(opened.fileno())


def _is_sealed(file: Path) -> bool:
    length = len(_SEAL % 0)
    with suppress(OSError), file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END) - length
        if size > 0:
            opened.seek(size)
            return opened.read() == _SEAL % size
    return False


def _remove_least_used(folder: Path) -> None:
    """Remove all but the archives that were used last. One that a process has mapped stays until it ends."""
    archives = sorted(folder.glob("*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in archives[KEPT:]:
        old.unlink(missing_ok=True)
