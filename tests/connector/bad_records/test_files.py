"""Dead letters as files: one for each range, the same one again when the range is read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.errors import ConfigError, SinkError
from penstock.connector.bad_records.files import DeadLetterDirectory, check_directory
from penstock.connector.source.records import RawRecord
from penstock.connector.source.split import Split

SPLIT = Split(split_id="orders-0", start=10, stop=20)
BOUND_MS = 1_700_000_000_000
FAR_MS = 3_786_912_000_000  # 2090-01-01


def record(position: int, value: bytes | None = b"{}", key: bytes | None = None) -> RawRecord:
    """A record of the split."""
    return RawRecord(position=position, key=key, value=value, where=f"offset {position}")


def write(
    project: Path, records: list[RawRecord], *, split: Split = SPLIT, path: str = "letters"
) -> None:
    """Write the letters of one range as a task that succeeds."""
    letters = DeadLetterDirectory(path, project, "c.d.orders", [split])
    letters.write(split.split_id, records, [FAR_MS] * len(records), BOUND_MS)
    letters.finish({split.split_id})
    letters.close()


def files(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What is below a folder: letters by path."""
    return {
        str(path.relative_to(folder)): list(map(json.loads, path.read_bytes().splitlines()))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_letter_says_what_the_record_was_and_why_it_was_left_out(tmp_path: Path) -> None:
    """One JSON object a line, in a file that is named by table, split and range."""
    write(tmp_path, [record(12, '{"id": "ä"}'.encode(), b"k"), record(15)])

    ((name, (first, second)),) = files(tmp_path / "letters").items()
    assert name == "c.d.orders/orders-0.10-20.jsonl"
    assert first == {
        "table": "c.d.orders",
        "split": "orders-0",
        "position": 12,
        "watermark": "2090-01-01T00:00:00.000Z",
        "not_after": "2023-11-14T22:13:20.000Z",
        "reason": "the watermark is too far in the future",
        "key": "k",
        "value": '{"id": "ä"}',
    }
    assert (second["position"], second["key"], second["value"]) == (15, None, "{}")


def test_bytes_that_are_no_text_are_written_in_base64(tmp_path: Path) -> None:
    """Under another name, so that nobody takes it for the text."""
    write(tmp_path, [record(12, b"\xff\x00", b"\xfe")])

    ((letter,),) = files(tmp_path).values()
    assert (letter["key_base64"], letter["value_base64"]) == ("/g==", "/wA=")
    assert not {"key", "value"} & letter.keys()


def test_a_range_that_is_read_again_gives_the_same_file(tmp_path: Path) -> None:
    """Exactly once: the file of the first attempt is replaced, not added to."""
    write(tmp_path, [record(11), record(12)])
    write(tmp_path, [record(11), record(12)])
    write(tmp_path, [record(25)], split=Split(split_id="orders-0", start=20, stop=30))

    found = files(tmp_path / "letters" / "c.d.orders")
    assert {name: [letter["position"] for letter in rows] for name, rows in found.items()} == {
        "orders-0.10-20.jsonl": [11, 12],
        "orders-0.20-30.jsonl": [25],
    }


def test_an_attempt_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Nor does it touch what an attempt before it wrote."""
    write(tmp_path, [record(11)])
    before = files(tmp_path)
    letters = DeadLetterDirectory("letters", tmp_path, "c.d.orders", [SPLIT])
    letters.write("orders-0", [record(12)], [FAR_MS], BOUND_MS)
    letters.close()

    assert files(tmp_path) == before


def test_letters_of_several_fetches_are_one_file(tmp_path: Path) -> None:
    """And a file is not shown before its range is read."""
    letters = DeadLetterDirectory("letters", tmp_path, "t", [SPLIT])
    for position in (11, 12):
        letters.write("orders-0", [record(position)], [FAR_MS], BOUND_MS)
    letters.finish(frozenset())
    shown = [name for name in files(tmp_path / "letters" / "t") if not name.startswith(".")]
    letters.finish({"orders-0", "another"})

    ((first, second),) = files(tmp_path / "letters").values()
    assert shown == []
    assert (first["position"], second["position"]) == (11, 12)


def test_a_task_without_dead_letters_makes_no_file(tmp_path: Path) -> None:
    """Not even the folder."""
    letters = DeadLetterDirectory("letters", tmp_path, "t", [SPLIT])
    letters.finish({"orders-0"})
    letters.close()

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("split_id", ["day=1/a b.json", "ü" * 100, "../../x"])
def test_any_split_gives_a_file_name(tmp_path: Path, split_id: str) -> None:
    """Files of a folder are splits too; names stay inside the table's folder and within 255 bytes."""
    write(tmp_path, [record(1)], split=Split(split_id=split_id, start=0, stop=None))

    (path,) = (tmp_path / "letters" / "c.d.orders").iterdir()
    assert path.name.endswith(".0-.jsonl")
    assert len(path.name) < 255


def test_long_names_that_begin_alike_are_two(tmp_path: Path) -> None:
    """They are told apart by a hash."""
    for last in "ab":
        split = Split(split_id="x" * 300 + last, start=0, stop=1)
        write(tmp_path, [record(1)], split=split)

    assert len(files(tmp_path)) == 2


def test_a_url_is_a_place_too(tmp_path: Path) -> None:
    """Any that pyarrow knows; other projects than the table's do not matter then."""
    write(Path("/nowhere"), [record(1)], path=(tmp_path / "far").as_uri())

    assert list(files(tmp_path)) == ["far/c.d.orders/orders-0.10-20.jsonl"]


def test_a_wrong_place_is_found_before_there_is_a_letter(tmp_path: Path) -> None:
    """By the check at the start of the query: an unknown scheme, and a file where a folder should be."""
    (tmp_path / "taken").write_text("")

    with pytest.raises(ConfigError, match=r"'scan\.dead-letter\.path' = 'nope://a/b'"):
        check_directory("nope://a/b", tmp_path)
    with pytest.raises(
        SinkError, match=r"cannot be written to 'scan\.dead-letter\.path' = 'taken'"
    ):
        check_directory("taken", tmp_path)


def test_the_check_makes_the_folder(tmp_path: Path) -> None:
    """As often as it is made."""
    check_directory("a/b", tmp_path)
    check_directory("a/b", tmp_path)

    assert (tmp_path / "a" / "b").is_dir()


def test_a_write_that_fails_is_the_products_error(tmp_path: Path) -> None:
    """Naming the option."""
    (tmp_path / "letters").write_text("")
    letters = DeadLetterDirectory("letters", tmp_path, "t", [SPLIT])

    with pytest.raises(SinkError, match=r"scan\.dead-letter\.path"):
        letters.write("orders-0", [record(11)], [FAR_MS], BOUND_MS)
