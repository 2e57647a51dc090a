"""Reading ranges of files: rows in order, positions, bad lines, files that changed, pausing."""

from __future__ import annotations

import bz2
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.catalog.errors import BadRecordError, DataLossError
from penstock.connector.contract import ReadRequest
from penstock.connector.filesystem.source import lines as lines_module
from penstock.connector.filesystem.source.reader import FileSplitReader
from penstock.connector.filesystem.source.source import FilesystemSource
from penstock.connector.filesystem.table.split import FileSplit
from penstock.connector.source.reader.reader import EndOfInput, NothingAvailable, SourceReader
from penstock.connector.source.records import RawRecord
from penstock.connector.source.split import Split
from tests.connector.filesystem.tables import (
    MODIFIED_S,
    file_source,
    planned,
    planning,
    read,
    text_source,
    write,
)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few bytes, so that a short file takes several fetches."""
    monkeypatch.setattr(lines_module.PlainLines.__init__, "__kwdefaults__", {"piece_bytes": 4})
    monkeypatch.setattr(lines_module.CompressedLines.__init__, "__kwdefaults__", {"piece_bytes": 4})


def open_reader(source: FilesystemSource) -> tuple[FileSplitReader, list[FileSplit]]:
    """A reader of all columns and the splits of the whole folder, not given to it yet."""
    planner = planning(source)
    splits = [planner.split(i, start, stop) for i, (start, stop) in planned(planner).items()]
    names = tuple(source.table.schema.names)
    return source.open_reader(ReadRequest(columns=names)), splits


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    """In the order given; the whole line is the record, with or without its end."""
    write(tmp_path / "b", "1\n2\r\n\n4")
    write(tmp_path / "a", "5\n", modified_s=MODIFIED_S + 1)
    found = read(text_source(tmp_path), ["line"])

    assert found.column("line") == ["1", "2", "", "4", "5"]
    assert found.positions == {"b": 7, "a": 2}


def test_a_long_file_is_read_in_pieces(tmp_path: Path, small_pieces: None) -> None:
    """Each fetch says where the next one goes on."""
    write(tmp_path / "a", "".join(f"{number}\n" for number in range(10)))
    reader, splits = open_reader(text_source(tmp_path))
    reader.add_splits(splits)
    positions = []
    while not (records := reader.fetch()).finished:
        positions.append(records.positions["a"])
    reader.close()

    assert positions == [4, 8, 12, 16]
    assert records.positions == {"a": 20}


def test_ranges_of_one_file_give_each_row_once(tmp_path: Path) -> None:
    """Several tasks may read a file; a range in which no line begins finishes without rows."""
    write(tmp_path / "a", '{"id":1}\n{"id":2}\n{"id":3}\n')
    ranges = [("a", 0, 5), ("a", 5, 10), ("a", 10, 17), ("a", 17, 27)]
    found = read(file_source(tmp_path), ["id"], ranges)

    assert found.column("id") == [1, 2, 3]
    assert [read(file_source(tmp_path), ["id"], [r]).column("id") for r in ranges] == [
        [1],
        [2],
        [],
        [3],
    ]


def test_a_range_with_nothing_in_it_finishes(tmp_path: Path) -> None:
    """Its file is not even opened."""
    write(tmp_path / "a", "1\n")
    source = text_source(tmp_path)
    split = planning(source).split("a", 2, 2)
    (tmp_path / "a").unlink()
    reader = source.open_reader(ReadRequest(columns=("line",)))
    reader.add_splits([split])

    assert reader.fetch().finished == {"a"}


@pytest.mark.parametrize("name", ["a.gz", "a.bz2", "a.GZ"])
def test_compressed_files_are_read_by_their_names(tmp_path: Path, name: str) -> None:
    """In pieces as well, from the one position that they have to the next."""
    text = "".join(f"{number}\n" for number in range(10))
    path = tmp_path / name
    if name == "a.bz2":
        write(path, bz2.compress(text.encode()))
    else:
        write(tmp_path / "b.gz", text).rename(path)
    found = read(text_source(tmp_path), ["line"])

    assert found.column("line") == [str(number) for number in range(10)]
    assert found.positions == {name: 1}


def test_a_reader_goes_on_inside_a_compressed_file(tmp_path: Path, small_pieces: None) -> None:
    """From each position that a fetch gave, as after a reader's failure: nothing twice, nothing left out."""
    write(tmp_path / "a.gz", "".join(f"{number}\n" for number in range(10)))
    source = text_source(tmp_path)
    reader, splits = open_reader(source)
    reader.add_splits(splits)
    rows: list[str] = []
    tails = []
    while not (records := reader.fetch()).finished:
        rows += [row for _, batch in records.batches for row in batch["line"].to_pylist()]
        rest = ("a.gz", records.positions["a.gz"], splits[0].stop or 0)
        tails.append(rows + read(source, ["line"], [rest]).column("line"))
    reader.close()

    assert len(tails) > 2
    assert tails == [[str(number) for number in range(10)]] * len(tails)


@pytest.mark.parametrize("content", [b"plain\n", b"\x1f\x8b\x08\x00 cut off"])
def test_a_damaged_compressed_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    """It names the file."""
    write(tmp_path / "b", content).rename(tmp_path / "a.gz")

    with pytest.raises(BadRecordError, match=r"a[.]gz cannot be decompressed"):
        read(text_source(tmp_path), ["line"])


def test_a_bad_line_fails_and_is_named_by_file_and_byte(tmp_path: Path) -> None:
    """With the format's own words, and its way out."""
    write(tmp_path / "a", '{"id":1}\r\n{"id":2}\r\nbad\r\n')

    with pytest.raises(BadRecordError, match="/a, byte 20: ") as caught:
        read(file_source(tmp_path), ["id"])
    assert "'json.ignore-parse-errors'" in (caught.value.hint or "")


def test_bad_lines_are_skipped_and_counted_where_the_table_says_so(tmp_path: Path) -> None:
    """As with every other source of records."""
    write(tmp_path / "a", '{"id":1}\nbad\n{"id":2}\n')
    found = read(file_source(tmp_path, {"json.ignore-parse-errors": "true"}), ["id"])

    assert found.column("id") == [1, 2]
    assert found.skipped == 1


def test_metadata_is_that_of_the_file(tmp_path: Path) -> None:
    """Flink's four keys, with the types that the table declares."""
    write(tmp_path / "x" / "a", '{"id":1}\n{"id":2}\n')
    metadata = {
        "p": ("file.path", "STRING"),
        "n": ("file.name", "STRING NOT NULL"),
        "s": ("file.size", "BIGINT"),
        "m": ("file.modification-time", "TIMESTAMP_LTZ(3)"),
        "local": ("file.modification-time", "TIMESTAMP(3)"),
    }
    source = file_source(tmp_path, metadata=metadata)
    rows = read(source, ["m", "id", "s", "n", "p", "local"]).rows["x/a"]
    at = datetime.fromtimestamp(MODIFIED_S, UTC)
    same = {"m": at, "s": 18, "n": "a", "p": f"{tmp_path}/x/a", "local": at.replace(tzinfo=None)}

    assert rows == [{**same, "id": number} for number in (1, 2)]


def test_without_columns_rows_are_counted(tmp_path: Path) -> None:
    """COUNT(*) decodes nothing; metadata alone decodes nothing either."""
    write(tmp_path / "a", '{"id":1}\nnot decoded\n')
    source = file_source(tmp_path, metadata={"n": ("file.name", "STRING")})

    assert read(source, []).rows == {"a": [{}, {}]}
    assert read(source, ["n"]).column("n") == ["a", "a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "was removed"), ("1", "now has 1"), ("2\n", "was modified after it was listed")],
)
def test_a_file_that_changed_after_the_listing_is_an_error(
    tmp_path: Path, content: str | None, message: str
) -> None:
    """Its rows would not be those that were planned."""
    path = write(tmp_path / "a", "1\n")
    reader, splits = open_reader(text_source(tmp_path))
    path.unlink()
    if content is not None:
        write(path, content, modified_s=MODIFIED_S + 9)
    reader.add_splits(splits)

    with pytest.raises(DataLossError, match=f"{path} .*{message}"):
        reader.fetch()


def test_a_file_that_grew_is_read_to_the_end_that_it_had(tmp_path: Path) -> None:
    """What is appended is not read, as in Flink."""
    path = write(tmp_path / "a", "1\n2")
    reader, splits = open_reader(text_source(tmp_path))
    write(path, "1\n22\n3\n", modified_s=MODIFIED_S + 9)
    reader.add_splits(splits)
    ((_, batch),) = reader.fetch().batches

    assert batch["line"].to_pylist() == ["1", "2"]


def test_a_paused_split_lets_the_next_one_go_first(tmp_path: Path, small_pieces: None) -> None:
    """And goes on where it was when it is resumed; unknown ids are ignored."""
    write(tmp_path / "a", "1\n2\n3\n4\n")
    write(tmp_path / "b", "5\n")
    reader, splits = open_reader(text_source(tmp_path))
    reader.add_splits(splits)
    seen = [reader.fetch()]
    reader.pause_or_resume(["a", "gone"], [])
    seen.append(reader.fetch())
    reader.pause_or_resume([], ["a", "gone"])
    seen.append(reader.fetch())
    found = [(i, batch["line"].to_pylist()) for records in seen for i, batch in records.batches]
    reader.close()

    assert found == [("a", ["1", "2"]), ("b", ["5"]), ("a", ["3", "4"])]


def test_a_fetch_that_waits_is_woken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader all of whose splits are paused waits for what comes, here for half a minute."""
    monkeypatch.setattr("penstock.connector.filesystem.source.reader.FETCH_S", 30.0)
    write(tmp_path / "a", "1\n")
    reader, splits = open_reader(text_source(tmp_path))
    reader.add_splits(splits)
    reader.pause_or_resume(["a"], [])
    fetched = []
    thread = threading.Thread(target=lambda: fetched.append(reader.fetch()))
    thread.start()
    reader.wake_up()
    thread.join(10)

    assert not thread.is_alive()
    assert not fetched[0].batches


def source_reader(source: FilesystemSource, splits: Sequence[Split]) -> SourceReader:
    """A reader as an executor has it, with the splits of a checkpoint and no more to come."""
    request = ReadRequest(columns=("line",))
    reader = SourceReader(lambda: source.open_reader(request), model=source.fetching)
    reader.add_splits(splits)
    reader.notify_no_more_splits()
    reader.start()
    return reader


def polled_rows(reader: SourceReader, most: int | None = None) -> list[str]:
    """The rows of the next polls that have some, of `most` polls or of all to the end of input."""
    rows: list[str] = []
    while most is None or most > 0:
        match reader.poll_next():
            case EndOfInput():
                break
            case NothingAvailable():
                assert reader.wait_available(10), "a file that is there was not read"
            case records if records.batches:
                most = None if most is None else most - 1
                rows += [row for _, batch in records.batches for row in batch["line"].to_pylist()]
    return rows


@pytest.mark.parametrize("polls", [0, 1, 2, 3, 4, 5])
def test_a_checkpoint_between_any_two_polls_gives_each_row_once(
    tmp_path: Path, small_pieces: None, polls: int
) -> None:
    """Plain and compressed: another reader goes on with the splits of the snapshot, made anew by the planner."""
    write(tmp_path / "a.gz", "1\n2\n3\n4\n5\n")
    write(tmp_path / "b", "6\n7\n8\n9\n", modified_s=MODIFIED_S + 1)
    source = text_source(tmp_path)
    planner = planning(source)
    splits = [planner.split(i, start, stop) for i, (start, stop) in planned(planner).items()]
    first = source_reader(source, splits)
    before = polled_rows(first, polls)
    restored = [
        planning(source).split(s.split_id, s.start, s.stop) for s in first.snapshot_state(1)
    ]
    first.close()
    second = source_reader(source, restored)
    after = polled_rows(second)
    second.close()

    assert before + after == [str(number) for number in range(1, 10)]


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_rows_lead_back_to_their_lines(tmp_path: Path, name: str, small_pieces: None) -> None:
    """Where the request asks for it: position and bytes of each line, empty and bad lines before it or not."""
    lines = ['{"id":1}', "", "bad", '[{"id":2},{"id":3}]', '{"id":4}\r']
    write(tmp_path / name, "\n".join(lines))
    source = file_source(tmp_path, {"json.ignore-parse-errors": "true"})
    planner = planning(source)
    reader = source.open_reader(ReadRequest(columns=("id",), origins=True))
    reader.add_splits([planner.split(i, *at) for i, at in planned(planner).items()])
    found: dict[int, RawRecord] = {}
    finished: frozenset[str] = frozenset()
    while not finished:
        records = reader.fetch()
        finished = records.finished
        for split_id, batch in records.batches:
            raw = records.origins[split_id].of(range(batch.num_rows))
            found |= dict(zip(batch["id"].to_pylist(), raw, strict=True))

    assert {number: (raw.position, raw.value) for number, raw in found.items()} == {
        1: (0, b'{"id":1}'),
        2: (14, b'[{"id":2},{"id":3}]'),
        3: (14, b'[{"id":2},{"id":3}]'),
        4: (34, b'{"id":4}'),
    }
    assert found[4].where.endswith(f"{name}, byte 34")


def test_raw_lines_are_kept_only_where_they_are_asked_for(tmp_path: Path) -> None:
    """They would cost memory."""
    write(tmp_path / "a", '{"id":1}\n')
    reader, splits = open_reader(file_source(tmp_path))
    reader.add_splits(splits)

    assert reader.fetch().origins == {}
