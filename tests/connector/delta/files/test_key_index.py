"""Where the rows of keys are, by files that come and go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.delta.files import key_index
from penstock.connector.delta.files.key_digests import KeyDigests, key_digests
from penstock.connector.delta.files.key_index import KeyIndex


def digests(*keys: int) -> KeyDigests:
    return KeyDigests(low=np.array(keys, np.uint64))


def add(index: KeyIndex, path: str, *keys: int) -> None:
    index.add(path, digests(*keys), np.arange(len(keys)))


def found(index: KeyIndex, *keys: int) -> dict[str, list[int]]:
    return {path: at.tolist() for path, at in index.positions_of(digests(*keys)).items()}


def test_rows_are_found_in_every_file_that_has_them() -> None:
    """A key may have several rows, also in one file."""
    index = KeyIndex(wide=False)
    assert found(index, 1) == {}
    add(index, "a", 7, 3, 7)
    add(index, "b", 3)
    add(index, "empty")

    assert found(index, 7, 9) == {"a": [0, 2]}
    assert found(index, 3) == {"a": [1], "b": [0]}
    assert index.unknown(["a", "b", "c", "empty"]) == ["c"]


def test_files_that_are_gone_have_no_rows_and_are_read_again_when_they_are_back() -> None:
    """RESTORE brings a file back."""
    index = KeyIndex(wide=False)
    add(index, "a", 1, 2)
    add(index, "b", 2)
    index.forget_other(["b"])

    assert found(index, 1, 2) == {"b": [0]}
    assert index.unknown(["a", "b"]) == ["a"]
    add(index, "a", 1, 2)
    assert found(index, 1, 2) == {"a": [0, 1], "b": [0]}


STEPS = st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 40), max_size=12)), max_size=25)


@given(STEPS)
def test_runs_that_are_merged_lose_no_row(steps: list[tuple[bool, set[int]]]) -> None:
    """As a plain dictionary says, whatever was forgotten in between."""
    index, model = KeyIndex(wide=False), {}
    for number, (forgets, keys) in enumerate(steps):
        path = f"f{number}"
        model[path] = sorted(keys, reverse=True)
        add(index, path, *model[path])
        if forgets:
            del model[next(iter(model))]
            index.forget_other(model)
        asked = range(0, 40, 3)
        expected = {
            path: [at for at, key in enumerate(of) if key in asked] for path, of in model.items()
        }
        assert found(index, *asked) == {path: at for path, at in expected.items() if at}


def test_long_runs_are_in_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They have no names; several are asked where one would be too long."""
    monkeypatch.setattr(key_index, "_ON_DISK_FROM", 4)
    monkeypatch.setattr(key_index, "_RUN_MOST", 8)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    index = KeyIndex(wide=True)
    for number in range(6):
        keys = key_digests([np_texts(number)], wide=True)
        index.add(f"f{number}", keys, np.arange(len(keys)))
        index.positions_of(keys)

    all_found = index.positions_of(key_digests([np_texts(4)], wide=True))
    assert {path: at.tolist() for path, at in all_found.items()} == {"f4": [0, 1, 2]}
    assert sorted(map(len, index._runs)) == [6, 6, 6]
    assert all(isinstance(run.low, np.memmap) for run in index._runs)
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_a_run_is_made_loses_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were added are made a run the next time."""
    index = KeyIndex(wide=False)
    for number in range(3):
        add(index, f"f{number}", *range(number, 20))

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(key_index, "_stored", full)
        with pytest.raises(OSError, match="No space"):
            found(index, 5)

    assert found(index, 5) == {"f0": [5], "f1": [4], "f2": [3]}


def np_texts(number: int):
    import pyarrow as pa

    return pa.array([f"{number}-{each}" for each in range(3)])


def test_equal_halves_are_no_equal_keys() -> None:
    """Of 128 bits all count."""
    index = KeyIndex(wide=True)
    low = np.array([5, 5], np.uint64)
    index.add("a", KeyDigests(low=low, high=np.array([1, 2], np.uint64)), np.arange(2))

    asked = KeyDigests(low=low[:1], high=np.array([2], np.uint64))
    assert {path: at.tolist() for path, at in index.positions_of(asked).items()} == {"a": [1]}
