"""What Spark's Java process, and so its Python workers, find in their environment."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.catalog.secrets.crypto import KeyLocation, find_keys, new_key
from penstock.sql.spark_process.java_environment import java_environment

KEY, FILE = "PENSTOCK_SECRET_KEY", "PENSTOCK_SECRET_KEY_FILE"
PASSWORD = "PENSTOCK_TLS_KEYSTORE_PASSWORD"
SHOW = f"import os; print([os.environ.get(name) for name in ({KEY!r}, {PASSWORD!r})])"


def test_a_child_process_does_not_get_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads the environment of the Java process (`${env:...}`, /proc) finds no key in it."""
    monkeypatch.setenv(KEY, new_key())
    monkeypatch.setenv(PASSWORD, "hidden")
    with java_environment():
        shown = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, check=True)

    assert shown.stdout.decode().strip() == "[None, None]"


def test_a_python_worker_finds_the_keys_in_a_private_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys, the current one first, for this user only; afterwards the environment is as it was."""
    new, old = new_key(), new_key()
    monkeypatch.setenv(KEY, f"{new}, {old}")
    monkeypatch.setenv(FILE, "/somewhere/else")
    with java_environment():
        file = Path(os.environ[FILE])
        found = find_keys(KeyLocation(file=file))
        modes = [stat.S_IMODE(place.stat().st_mode) for place in (file, file.parent)]

    assert found.keys == (new, old)
    assert modes == [0o600, 0o700]
    assert (os.environ[KEY], os.environ[FILE]) == (f"{new}, {old}", "/somewhere/else")


def test_an_environment_without_keys_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key file that is named is a name alone."""
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.setenv(FILE, "/run/secrets/key")
    with java_environment():
        inside = os.environ[FILE]

    assert inside == "/run/secrets/key"


KILLED = """
import os, signal
from penstock.sql.spark_process.java_environment import java_environment
with java_environment():
    print(os.environ["PENSTOCK_SECRET_KEY_FILE"], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_key_of_a_killed_process_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that runs keeps its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv(KEY, new_key())
    with java_environment():
        running = Path(os.environ[FILE])
    died = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, check=False)
    left = Path(died.stdout.decode().strip())
    there = left.exists()
    with java_environment():
        pass

    assert there
    assert not left.parent.exists()
    assert running.exists()
