"""An earlier Penstock, as somebody has it installed: the wheel of a commit, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 300.0
"""For one command; they take seconds."""


def install(commit: str, folder: Path) -> Path:
    """Build and install the Penstock of a commit; give the folder for PYTHONPATH. What it needs is this one's.

    Skips the test where the commit is not in the clone.
    """
    git = ["git", "-C", str(ROOT)]
    known = subprocess.run(
        [*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False
    )
    if known.returncode:
        pytest.skip(f"the commit {commit} is not in this clone")
    source, wheels, installed = (folder / name for name in ("source", "wheels", "installed"))
    source.mkdir(parents=True)
    archive = folder / "source.tar"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _run(*git, "archive", f"--output={archive}", commit)
    _run("tar", "-xf", str(archive), "-C", str(source))
    _run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source))
    (wheel,) = wheels.glob("penstock-*.whl")
    _run(*pip, "install", "--no-deps", "--target", str(installed), str(wheel))
    return installed


def environment(installed: Path) -> dict[str, str]:
    """The environment of a process that is to find that Penstock, and not the one of the working tree."""
    return os.environ | {"PYTHONPATH": str(installed)}


def _run(*command: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
