"""Where a table's files are, which of them count, and errors of the file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import (
    ConfigError,
    DataLossError,
    OptionError,
    QueryFailedError,
    UnknownObjectError,
)
from penstock.connector.filesystem.table.location import Location, TableFolder, explained, locate
from tests.connector.filesystem.tables import write


def names(path: Path) -> set[str]:
    """The files that a folder is seen to hold."""
    return {file.name for file in TableFolder(Location(text=str(path))).files()}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("orders", "/project/orders"),
        ("../orders/", "/orders"),
        ("/data/orders", "/data/orders"),
        ("file:/data/a b", "/data/a b"),
        ("file:///data/orders/", "/data/orders"),
        ("FILE:///data/100%", "/data/100%"),
        ("s3://bucket/orders", "s3://bucket/orders"),
    ],
)
def test_a_path_is_the_projects_or_absolute_or_a_url(path: str, found: str) -> None:
    """As in Hadoop's Path nothing in a file URL is escaped."""
    assert locate(path, Path("/project"), owner="table t").text == found


@pytest.mark.parametrize("path", ["file://host/data", "s3a://bucket/x", "ftp://host/x"])
def test_file_systems_that_are_not_known_are_refused(path: str) -> None:
    """Before anything is read, with what to write in their place."""
    with pytest.raises(OptionError) as caught:
        locate(path, Path("/project"), owner="table t")

    assert caught.value.hint


def test_a_key_in_a_url_is_not_shown() -> None:
    """Locations end up in errors."""
    location = Location(text="s3://user:hunter2@bucket/orders")

    assert "hunter2" not in location.shown


def test_files_are_found_in_folders_below(tmp_path: Path) -> None:
    """Names are relative to the table's folder, with slashes."""
    for name in ("a.json", "x/b.json", "x/y/c.json"):
        write(tmp_path / name, "{}\n")

    assert names(tmp_path) == {"a.json", "x/b.json", "x/y/c.json"}


def test_hidden_and_unfinished_files_are_left_out(tmp_path: Path) -> None:
    """So are those in hidden folders; the table's own folder may have any name."""
    for name in (".a", "_b", ".part-0.inprogress.1", "_tmp/c", ".d/e", "f._COPYING_", "g_h.i"):
        write(tmp_path / "_in" / name, "{}\n")

    assert names(tmp_path / "_in") == {"g_h.i"}


def test_a_path_may_be_a_single_file(tmp_path: Path) -> None:
    """It is then the one file of the table, looked at under its name."""
    path = write(tmp_path / "a.json", "{}\n")
    folder = TableFolder(Location(text=str(path)))
    (found,) = folder.files()

    assert (found.name, found.path, found.size) == ("a.json", str(path), 3)
    assert folder.look_at(["a.json"]) == [found]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """A slip of the pen in `path` must not read as an empty table."""
    with pytest.raises(UnknownObjectError, match="no folder or file"):
        names(tmp_path / "ordres")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError(2, "gone"), DataLossError),
        (PermissionError(13, "denied"), ConfigError),
        (OSError(5, "broken"), QueryFailedError),
    ],
)
def test_errors_of_the_file_system_are_the_products_own(
    error: OSError, expected: type[Exception]
) -> None:
    """Each names the file."""
    with pytest.raises(expected, match=r"a[.]json"), explained("a.json"):
        raise error
