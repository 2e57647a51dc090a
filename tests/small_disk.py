"""A disk that is small enough to be filled, for tests of what a full one does."""

from __future__ import annotations

import contextlib
import errno
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

DISK_MB = 48
BLOCK = b"\0" * 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A small disk that only a process in the holder's namespaces sees as `inside`; we see it as `outside`."""

    inside: Path
    holder: int

    @property
    def outside(self) -> Path:
        """Its path for us."""
        return Path(f"/proc/{self.holder}/root{self.inside}")

    @property
    def enter(self) -> tuple[str, ...]:
        """What puts a command there."""
        target = ("nsenter", f"--target={self.holder}", "--user", "--mount")
        return (*target, "--preserve-credentials", f"--wdns={self.inside}", "--")

    def fill(self) -> None:
        """Leave no room at all."""
        with contextlib.suppress(OSError), (self.outside / "ballast").open("wb", 0) as ballast:
            while ballast.write(BLOCK) == len(BLOCK):
                pass
        with pytest.raises(OSError) as full:
            (self.outside / "probe").write_bytes(BLOCK)
        assert full.value.errno == errno.ENOSPC

    def free(self) -> None:
        """Make room again."""
        for name in ("ballast", "probe"):
            (self.outside / name).unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(inside: Path) -> Iterator[Disk]:
    """A small tmpfs in namespaces of its own, which needs no rights on most machines."""
    inside.mkdir()
    mounting = f"mount -t tmpfs -o size={DISK_MB}m none '{inside}' && echo ready && read -r closed"
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("there is no unshare here")
    holder = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounting],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    if holder.stdout.readline() != b"ready\n":
        pytest.skip("this machine lets nobody mount a tmpfs in a user namespace")
    try:
        yield Disk(inside=inside, holder=holder.pid)
    finally:
        holder.stdin.close()
        holder.wait(30)
