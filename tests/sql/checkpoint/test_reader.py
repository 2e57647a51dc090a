"""What a checkpoint directory holds; damage is refused by the name of the file (case 44), never read as a new start."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.state import SourceState, SplitState, encode_state
from penstock.sql.checkpoint.fingerprint import QueryFingerprint
from penstock.sql.checkpoint.reader import MOST_BYTES, LocalFiles, read_checkpoint

SHAPE = QueryFingerprint(sources=("clicks",), sink="copies", state=())


def offsets(start: int, end: int) -> str:
    """A file of Spark's offset log for a query of one table."""
    split = SplitState(split_id="clicks-0", owner="clicks", start=start, end=end)
    return f"v1\n{json.dumps({'batchWatermarkMs': 0})}\n{json.dumps(encode_state(SourceState(splits=(split,))))}"


@dataclass
class Files:
    """A checkpoint of the batches 0 and 1, of which both are done (`CheckpointFiles`)."""

    files: dict[str, str] = field(
        default_factory=lambda: {
            "penstock-query.json": SHAPE.to_text(),
            "metadata": '{"id":"249ea227-af9b-4717-bde4-3deb8d8d38e7"}',
            "offsets/0": offsets(0, 100),
            "offsets/1": offsets(100, 150),
            "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
            "commits/1": 'v1\n{"nextBatchWatermarkMs":0}',
        }
    )
    location: str = "checkpoints/job/copies"

    def names(self, folder: str) -> Sequence[str]:
        prefix = f"{folder}/" if folder else ""
        inside = [f.removeprefix(prefix) for f in self.files if f.startswith(prefix)]
        return sorted({name.partition("/")[0] for name in inside})

    def text(self, path: str) -> str | None:
        return self.files.get(path)


def test_a_whole_checkpoint_tells_where_the_query_goes_on() -> None:
    """The last batch is done: the next one begins where it ended."""
    saved = read_checkpoint(Files())

    assert saved is not None
    assert (saved.shape, saved.planned, saved.committed) == (SHAPE, 1, 1)
    assert (saved.next_batch, saved.replays) == (2, False)
    (offset,) = saved.offsets
    assert isinstance(offset, SourceState)
    assert offset.positions == {"clicks-0": 150}


def test_a_batch_that_was_planned_and_not_done_is_replayed() -> None:
    """The first one too."""
    files = Files()
    del files.files["commits/1"]
    first = Files()
    for name in ("commits/0", "commits/1", "offsets/1"):
        del first.files[name]

    later, earlier = read_checkpoint(files), read_checkpoint(first)

    assert later is not None
    assert (later.next_batch, later.replays) == (1, True)
    assert earlier is not None
    assert (earlier.next_batch, earlier.replays) == (0, True)


def test_no_directory_and_one_of_other_things_is_no_checkpoint() -> None:
    """Dead letters may lie there alone."""
    assert read_checkpoint(Files(files={})) is None
    assert read_checkpoint(Files(files={"dead-letters/x": ""})) is None


def test_a_query_that_never_planned_a_batch_is_known_by_its_shape() -> None:
    """It was stopped between its start and its first batch."""
    saved = read_checkpoint(Files(files={"penstock-query.json": SHAPE.to_text()}))

    assert saved is not None
    assert (saved.planned, saved.next_batch, saved.replays) == (None, 0, False)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"metadata": '{"id":"x"}'}, "offsets is missing"),
        ({"metadata": '{"id":"x"}', "offsets/.lock": ""}, "commits is missing"),
        (
            {"offsets/.lock": "", "commits/.lock": "", "kafka-sinks/0a/began": "{}"},
            "offsets/0 is missing, though the query wrote kafka-sinks",
        ),
        (
            {"dead-letters-staging/0/17/range-x.0-9.9-0.tally": ""},
            "offsets/0 is missing, though the query wrote dead-letters-staging/0/17",
        ),
    ],
)
def test_a_checkpoint_that_lost_its_logs_is_no_query_that_never_ran(
    more: dict[str, str], named: str
) -> None:
    """Offsets and commits are both gone, and what else is there tells of batches."""
    files = Files(files={"penstock-query.json": SHAPE.to_text(), **more})

    with pytest.raises(StateMismatchError, match=named) as caught:
        read_checkpoint(files)

    assert "--from-scratch" in (caught.value.hint or "")


def test_a_query_that_was_stopped_before_its_first_batch_never_ran() -> None:
    """Spark has made the folders of its logs, perhaps `metadata`, and tasks know where to leave bad records."""
    files = Files(
        files={
            "penstock-query.json": SHAPE.to_text(),
            "offsets/.lock": "",
            "commits/.lock": "",
            "dead-letters-staging/0/_driver": "job/copies",
        }
    )
    earlier = read_checkpoint(files)
    files.files["metadata"] = '{"id":"x"}'
    saved = read_checkpoint(files)

    assert earlier is not None
    assert saved is not None
    assert (earlier.planned, saved.planned) == (None, None)


@pytest.mark.parametrize("name", ["penstock-query.json", "metadata", "offsets/1", "commits/1"])
@pytest.mark.parametrize("text", ["", "{", "\x00\x00garbage", "v9\n{}\n{}", "v1", "[]"])
def test_an_empty_cut_or_foreign_file_is_refused_by_name(name: str, text: str) -> None:
    """The remedy is told; nothing is taken for a new start."""
    files = Files()
    files.files[name] = text

    with pytest.raises(StateMismatchError) as caught:
        read_checkpoint(files)

    assert "checkpoints/job/copies" in caught.value.message
    assert name in caught.value.message
    assert "--from-scratch" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("removed", "named"),
    [
        (("penstock-query.json",), "penstock-query.json"),
        (("metadata",), "metadata"),
        (("offsets/1",), "offsets/1"),
        (("offsets/0",), "offsets/0"),
        (("offsets/0", "offsets/1"), "offsets/1"),
        (("commits/0", "commits/1"), "commits/0"),
    ],
)
def test_a_file_that_is_gone_is_refused_by_name(removed: Sequence[str], named: str) -> None:
    """Without `metadata` Spark would make a new query id, without offsets start over under the old one."""
    files = Files()
    for name in removed:
        del files.files[name]

    with pytest.raises(StateMismatchError, match=f"{named} is missing"):
        read_checkpoint(files)


def test_state_without_offsets_is_damage() -> None:
    """A query that keeps state has planned a batch before it kept any."""
    files = Files(
        files={
            "penstock-query.json": SHAPE.to_text(),
            "metadata": '{"id":"x"}',
            "state/0/0/1.delta": "",
        }
    )

    with pytest.raises(StateMismatchError, match="offsets/0 is missing"):
        read_checkpoint(files)


@pytest.mark.parametrize(
    "line",
    ['{"version": 99, "splits": {}}', '{"version": 2, "splits": 7}', '{"splits": {}}', "{oops"],
)
def test_an_offset_that_is_not_ours_is_refused(line: str) -> None:
    """A later version of Penstock, or something else."""
    files = Files()
    files.files["offsets/1"] = f"v1\n{{}}\n{line}"

    with pytest.raises(StateMismatchError, match="offsets/1"):
        read_checkpoint(files)


def test_a_shape_of_another_version_is_refused_by_its_file() -> None:
    """The message says which file holds it."""
    files = Files()
    files.files["penstock-query.json"] = '{"version": 2}'

    with pytest.raises(StateMismatchError, match=r"penstock-query\.json: .*another version"):
        read_checkpoint(files)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint in a folder, beside another file."""
    (tmp_path / "other").write_text("root:x:secret-of-another")
    for path, text in Files().files.items():
        file = tmp_path / "checkpoint" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "checkpoint"


def refusal(folder: Path) -> str:
    """What is said of a damaged checkpoint."""
    with pytest.raises(StateMismatchError) as caught:
        read_checkpoint(LocalFiles(location=str(folder)))
    return str(caught.value)


def test_what_a_log_begins_with_is_shown_only_where_it_is_a_version(folder: Path) -> None:
    """The page of another user shows it."""
    (folder / "offsets" / "1").write_text("root:x:secret\n{}\n")
    assert "begins with something else" in refusal(folder)
    assert "secret" not in refusal(folder)
    (folder / "offsets" / "1").write_text("v2\n{}\n")
    assert "begins with v2 and not" in refusal(folder)


@pytest.mark.parametrize("target", ["../../other", "/etc/passwd", "1"])
def test_a_link_that_leaves_the_checkpoint_is_not_followed(folder: Path, target: str) -> None:
    """Nor one that leads to itself; nothing of what it names is said."""
    (folder / "offsets" / "1").unlink()
    (folder / "offsets" / "1").symlink_to(target)

    said = refusal(folder)
    assert "offsets/1 cannot be read" in said
    assert "secret" not in said
    assert "root:" not in said


def test_a_link_inside_a_checkpoint_and_one_to_all_of_it_are_followed(
    folder: Path, tmp_path: Path
) -> None:
    """As of a checkpoint on another disk."""
    (folder / "offsets" / "1").rename(folder / "moved")
    (folder / "offsets" / "1").symlink_to("../moved")
    (tmp_path / "link").symlink_to(folder)

    saved = read_checkpoint(LocalFiles(location=str(tmp_path / "link")))
    assert saved is not None
    assert saved.planned == 1


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    """Nobody may ever write into it; nor is one of checksums."""
    os.mkfifo(folder / "offsets" / ".0.crc")
    assert read_checkpoint(LocalFiles(location=str(folder))) is not None
    (folder / "offsets" / "1").unlink()
    os.mkfifo(folder / "offsets" / "1")

    assert "offsets/1 cannot be read: it is no regular file" in refusal(folder)


def test_a_file_of_a_disk_full_of_nothing_is_not_read(folder: Path) -> None:
    """It would take the memory of a process that runs pipelines."""
    with (folder / "offsets" / "1").open("wb") as file:
        file.truncate(MOST_BYTES + 1)

    assert "offsets/1 cannot be read: it has more than" in refusal(folder)
