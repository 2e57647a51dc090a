"""Which files a table has, from commit to commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.connector.delta.files.live_files import LiveFile, LiveFiles
from penstock.connector.storage import open_folder


def commit(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    text = "\n".join(json.dumps(action) for action in actions)
    (log / f"{version:020}.json").write_text(text)


def added(path: str, vector: int | None = None) -> dict[str, Any]:
    action: dict[str, Any] = {"path": path, "size": 1, "partitionValues": {}}
    if vector is not None:
        action["deletionVector"] = {"storageType": "u", "pathOrInlineDv": "x", "offset": vector}
    return {"add": action}


def test_files_are_followed_from_commit_to_commit(tmp_path: Path) -> None:
    """A file that is removed and added in one commit, in whatever order, is there with its new vector."""
    commit(tmp_path, 0, {"protocol": {}}, added("a"), added("b"))
    commit(tmp_path, 1, added("a", 1), {"remove": {"path": "a"}}, {"remove": {"path": "b"}})
    commit(tmp_path, 2, {"commitInfo": {"operation": 'with "add" in it'}}, added("c"))
    table, live = open_folder(str(tmp_path)), LiveFiles()

    assert not live.follow(table, 2)
    live.begin(-1, ())
    assert live.follow(table, 1)
    assert live.paths == {"a"}
    assert live["a"].vector == {"storageType": "u", "pathOrInlineDv": "x", "offset": 1}
    assert live.follow(table, 2)
    assert (live.paths, live.version) == ({"a", "c"}, 2)


def test_a_gap_and_an_earlier_version_begin_anew(tmp_path: Path) -> None:
    """Commits that are cleaned up are not followed; nor is a table that was made again."""
    commit(tmp_path, 0, added("a"))
    commit(tmp_path, 2, added("c"))
    table, live = open_folder(str(tmp_path)), LiveFiles()
    live.begin(0, [added("a")["add"]])

    assert not live.follow(table, 2)
    live.begin(2, [added("c")["add"]])
    assert live.follow(table, 2)
    assert not live.follow(table, 1)


def test_a_file_with_a_vector_has_wide_bounds_and_its_number_of_rows() -> None:
    """What it had is removed with the vector that it had."""
    file = LiveFile(add={**added("a b%20c", 1)["add"], "stats": '{"numRecords":5,"minValues":{}}'})

    again = file.with_vector({"storageType": "u", "pathOrInlineDv": "y", "offset": 2}, 5)
    assert json.loads(again["stats"]) == {"numRecords": 5, "minValues": {}, "tightBounds": False}
    assert again["deletionVector"]["offset"] == 2
    assert LiveFile(add=again).with_vector({"x": 1}, 5)["stats"] == again["stats"]
    assert file.removed(7)["deletionVector"] == file.vector
    assert file.removed(7)["dataChange"]
    unknown = LiveFile(add=added("a")["add"])
    assert json.loads(unknown.with_vector({}, 9)["stats"])["numRecords"] == 9
    assert "deletionVector" not in unknown.removed(7)


def test_paths_are_those_below_the_folder() -> None:
    """As URLs have them; a clone's are elsewhere."""
    assert LiveFile(add={"path": "d=a%20b/x"}).local_path == "d=a b/x"
    assert not LiveFile(add={"path": "d=a%20b/x"}).elsewhere
    assert LiveFile(add={"path": "file:/t/x"}).elsewhere
    assert LiveFile(add={"path": "/t/x"}).elsewhere


def test_statistics_stay_as_they_are_written() -> None:
    """Numbers of any length, names with any letters, and what another writer says of bounds."""
    own = '"minValues": {"tightBounds":true,"d\\"}":0.123456789012345678901}'
    stats = f'{{ "numRecords":5 , {own},"tightBounds":true}}'
    again = LiveFile(add={**added("a")["add"], "stats": stats}).with_vector({"storageType": "i"}, 5)

    assert own.split(":", 1)[1].strip() in again["stats"]
    assert json.loads(again["stats"])["tightBounds"] is False
    assert again["stats"].count('"numRecords"') == 1
    bare = LiveFile(add=added("a")["add"]).with_vector({"storageType": "i"}, 7)
    assert json.loads(bare["stats"]) == {"numRecords": 7, "tightBounds": False}
