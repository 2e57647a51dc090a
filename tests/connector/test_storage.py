"""Folders in a store that speaks S3, opened by keys that come as a value."""

from __future__ import annotations

import json
import logging
import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from penstock.connector.spark.storage_access import store_of
from penstock.connector.storage import Folder, StorageAccess, open_folder
from tests.s3_server import running

if TYPE_CHECKING:
    from tests.s3_server import S3Server

LOCATION = "s3a://penstock/checkpoints/job"


def access_to(server: S3Server, **more: str) -> StorageAccess:
    """Return what Hadoop's configuration says of a store; `more` has underscores for dots."""
    changed = {f"fs.s3a.{name.replace('_', '.')}": value for name, value in more.items()}
    store = store_of(LOCATION, {**server.settings, **changed})
    assert store is not None
    return StorageAccess(stores=(store,))


@pytest.fixture
def folder(s3: S3Server) -> Folder:
    """A folder that is not there yet."""
    return open_folder(LOCATION, access=access_to(s3))


def put(folder: Folder, name: str, text: str) -> None:
    """Write a file of a folder."""
    with folder.system.open_output_stream(f"{folder.path}/{name}") as stream:
        stream.write(text.encode())


def test_files_are_written_listed_read_and_renamed(folder: Folder, s3: S3Server) -> None:
    """By requests that are signed with the keys of the value; nothing stands in the environment."""
    assert folder.names() == []
    assert folder.text("one") is None
    put(folder, ".one", "first")
    put(folder.below("inner"), "two", "second")
    folder.replace(f"{folder.path}/.one", f"{folder.path}/one")

    assert folder.is_of_objects
    assert s3.keys() == ["checkpoints/job/inner/two", "checkpoints/job/one"]
    assert (folder.names(), folder.folders()) == (["one"], ["inner"])
    assert folder.text("one") == "first"
    assert not s3.refused


def test_a_file_is_renamed_over_another_one(folder: Folder) -> None:
    for name in ("old", "new"):
        put(folder, name, name)
    folder.replace(f"{folder.path}/new", f"{folder.path}/old")

    assert folder.names() == ["old"]
    assert folder.text("old") == "new"


class OfHdfs:
    """The part of a file system that renames: one that has the target refuses, as HDFS."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.removed: list[str] = []

    def get_file_info(self, path: str) -> SimpleNamespace:
        """Tell of a file."""
        there = self.files.get(path)
        return SimpleNamespace(
            is_file=there is not None, size=None if there is None else len(there)
        )

    def move(self, source: str, target: str) -> None:
        """Rename."""
        if target in self.files:
            raise OSError(f"{target} is there")
        self.files[target] = self.files.pop(source)

    def delete_file(self, path: str) -> None:
        """Remove."""
        del self.files[path]
        self.removed.append(path)


@pytest.mark.parametrize(
    ("there", "removed"),
    [({}, []), ({"one": b"text"}, [".one"]), ({"one": b"te"}, ["one"])],
    ids=["none", "the same", "a part"],
)
def test_a_file_whose_name_tells_its_content_is_never_removed_for_its_like(
    there: dict[str, bytes], removed: list[str]
) -> None:
    """A late task writes it again, and may be killed between any two steps."""
    system = OfHdfs({".one": b"text", **there})
    Folder(system=system, path="", shown="").keep(".one", "one")

    assert system.files == {"one": b"text"}
    assert system.removed == removed


def test_keys_are_of_their_session(s3: S3Server) -> None:
    """Those that somebody has for an hour come with a token."""
    with running(token="for-an-hour") as server:
        put(open_folder(LOCATION, access=access_to(server)), "one", "text")
        alone = open_folder(LOCATION, access=access_to(server, session_token=""))
        with pytest.raises(OSError, match=r"AWS Error"):
            put(alone, "two", "text")

        assert server.keys() == ["checkpoints/job/one"]


def test_a_wrong_key_is_refused_and_not_shown(s3: S3Server) -> None:
    """What pyarrow says of it has no key in it."""
    folder = open_folder(LOCATION, access=access_to(s3, secret_key="another-secret-key"))
    with pytest.raises(OSError, match=r"AWS Error") as caught:
        put(folder, "one", "text")

    assert s3.refused
    assert "another-secret-key" not in str(caught.value)


def test_no_key_is_shown(s3: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    """Neither by what tasks are given, nor by an opened folder, nor in the log of what opened it."""
    access = access_to(s3, session_token="a-token-of-tests")
    folder = open_folder(LOCATION, access=access)
    with caplog.at_level(logging.WARNING):
        logging.getLogger("tests.storage").warning("with %s and a-token-of-tests", s3.secret_key)

    shown = f"{access!r} {access} {access.stores[0]!r} {folder!r} {folder.shown}"
    for secret in (s3.access_key, s3.secret_key, "a-token-of-tests"):
        assert secret not in shown
    assert "penstock" in shown
    assert caplog.records[0].getMessage() == "with ****** and ******"


def test_a_value_comes_back_from_text_and_from_a_pickle(s3: S3Server) -> None:
    """As it goes to processes that plan, and to tasks."""
    access = access_to(s3)

    assert StorageAccess.from_json(json.loads(json.dumps(access.to_json()))) == access
    assert pickle.loads(pickle.dumps(access)) == access


def test_a_store_is_opened_once(s3: S3Server) -> None:
    """Whatever the folder, and whichever of Hadoop's names of S3 it has: it keeps its connections."""
    access = access_to(s3)
    folders = [open_folder(at, access=access) for at in (LOCATION, "s3://penstock/other/")]

    assert folders[0].system is folders[1].system
    assert [folder.path for folder in folders] == ["penstock/checkpoints/job", "penstock/other"]


@pytest.mark.parametrize(
    ("location", "is_known"),
    [
        ("s3a://penstock/a", True),
        ("s3://penstock/a", True),
        ("s3a://penstock", True),
        ("s3a://another/a", False),
        ("s3a://key:secret@penstock/a", False),
        ("gs://penstock/a", False),
        ("/penstock/a", False),
        ("file:///penstock/a", False),
    ],
)
def test_a_value_is_of_its_stores(s3: S3Server, location: str, *, is_known: bool) -> None:
    """Others are opened by what pyarrow finds itself."""
    assert (access_to(s3).store_of(location) is not None) == is_known
