"""Folders that hold records and keys are for this user alone, however many of them are missing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.catalog.errors import ConfigError
from penstock.catalog.secrets.private_folder import make_data_folder, make_private_folder
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.spark_process.jvm import _umask
from penstock.sql.spark_process.spark_session import UMASK


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """Of most systems: new folders are everybody's to read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def rights(path: Path) -> int:
    """What everybody may do."""
    return stat.S_IMODE(path.stat().st_mode)


def test_every_folder_on_the_way_is_private(tmp_path: Path) -> None:
    """One that is there keeps its rights."""
    make_private_folder(tmp_path / "shared")
    (tmp_path / "shared").chmod(0o755)
    make_private_folder(tmp_path / "shared" / ".penstock" / "logs")
    make_private_folder(tmp_path / "shared" / ".penstock" / "logs")

    assert rights(tmp_path / "shared") == 0o755
    assert rights(tmp_path / "shared" / ".penstock") == 0o700
    assert rights(tmp_path / "shared" / ".penstock" / "logs") == 0o700


@pytest.mark.parametrize(
    ("before", "after"), [(0o755, 0o700), (0o775, 0o770), (0o700, 0o700), (0o2770, 0o2770)], ids=oct
)
def test_a_folder_of_an_older_penstock_is_closed_to_others(
    before: int, after: int, tmp_path: Path
) -> None:
    """A group that may write in it keeps its rights."""
    own = tmp_path / "project" / ".penstock"
    own.mkdir(parents=True)
    own.chmod(before)
    make_private_folder(own / "logs")

    assert rights(own) == after
    assert rights(tmp_path / "project") == 0o755


def test_the_folder_of_a_new_catalog_is_private(tmp_path: Path) -> None:
    """With the key of its secrets in it."""
    catalog = SqlCatalog(f"sqlite:///{tmp_path}/project/.penstock/catalog.db")
    catalog.secrets.create("one", "value")

    assert rights(tmp_path / "project" / ".penstock") == 0o700
    assert rights(tmp_path / "project" / ".penstock" / "secret.key") == 0o600


def test_what_the_java_process_writes_is_private_unless_hadoop_is_told_otherwise() -> None:
    """Its umask goes by the setting by which Hadoop sets rights itself."""
    assert _umask({}) == 0o077
    assert _umask({UMASK: "022"}) == 0o022
    assert _umask({UMASK: "u=rwx,g=rx,o="}) == -1


def test_a_data_folder_that_cannot_be_made_is_an_error_with_its_setting(tmp_path: Path) -> None:
    """Not a fault of the program: the project's file names another."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be created") as raised:
        make_data_folder(tmp_path / "file" / "logs")

    assert "[paths]" in (raised.value.hint or "")
