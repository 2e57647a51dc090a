"""Deletion vectors in files and in the log."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from penstock.connector.delta.files.deletion_vector import (
    DamagedVectorError,
    VectorFolder,
    decode_z85,
    encode_z85,
)
from penstock.connector.delta.files.roaring import encode_positions


def test_names_are_those_of_the_protocol() -> None:
    """The example of Delta's PROTOCOL.md."""
    uuid = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")

    assert encode_z85(uuid.bytes) == "^-aqEH.-t@S}K{vb[*k^"
    assert decode_z85("^-aqEH.-t@S}K{vb[*k^") == uuid.bytes


def test_vectors_of_a_commit_are_one_file(tmp_path: Path) -> None:
    """Each is found by its offset; without vectors there is no file."""
    folder = VectorFolder(folder=tmp_path)
    one, two = np.array([3, 5]), np.arange(0, 9_000, 2)

    assert folder.write({}) == {}
    assert list(tmp_path.iterdir()) == []
    described = folder.write({"a": one, "b": two})

    assert len(list(tmp_path.glob("deletion_vector_*.bin"))) == 1
    assert folder.read(described["a"]).tolist() == [3, 5]
    assert folder.read(described["b"]).tolist() == two.tolist()
    assert described["a"]["offset"] == 1
    assert described["b"]["cardinality"] == 4_500


def test_vectors_of_other_writers_are_found(tmp_path: Path) -> None:
    """Inside of the log, below a folder of a prefix, and by an absolute path."""
    folder = VectorFolder(folder=tmp_path)
    described = folder.write({"a": np.array([3, 5])})["a"]
    data = encode_positions(np.array([3, 5]))
    (file,) = tmp_path.iterdir()
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / file.name).write_bytes(file.read_bytes())
    prefixed = {**described, "pathOrInlineDv": f"ab{described['pathOrInlineDv']}"}
    absolute = {**described, "storageType": "p", "pathOrInlineDv": file.as_uri()}
    inline = {**described, "storageType": "i", "pathOrInlineDv": encode_z85(data), "offset": None}

    assert folder.read(absolute).tolist() == [3, 5]
    file.unlink()
    assert [folder.read(one).tolist() for one in (prefixed, inline)] == [[3, 5], [3, 5]]


@pytest.mark.parametrize("place", [3, 12, -1])
def test_a_damaged_file_is_found(tmp_path: Path, place: int) -> None:
    """By its size, its checksum, or as it is gone."""
    folder = VectorFolder(folder=tmp_path)
    described = folder.write({"a": np.array([3, 5])})["a"]
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)

    with pytest.raises(DamagedVectorError):
        folder.read(described)
    file.unlink()
    with pytest.raises(DamagedVectorError):
        folder.read(described)


def test_a_file_that_is_gone_or_cut_off_is_not_there(tmp_path: Path) -> None:
    """One that the log has is."""
    folder = VectorFolder(folder=tmp_path)
    described = folder.write({"a": np.array([3]), "b": np.array([4])})
    inline = {**described["a"], "storageType": "i", "pathOrInlineDv": "00000", "offset": None}
    (file,) = tmp_path.iterdir()

    assert all(map(folder.has, described.values()))
    file.write_bytes(file.read_bytes()[:-1])
    assert [folder.has(described[name]) for name in "ab"] == [True, False]
    file.unlink()
    assert [folder.has(one) for one in (described["a"], inline)] == [False, True]
