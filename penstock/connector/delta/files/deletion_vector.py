"""Deletion vectors: which rows of a file are no longer of the table, as the log describes them and files hold them.

The forms are those of Delta's protocol ("Deletion Vectors"). One file of vectors is written a commit, whole and
durable before the commit names it; one that no commit names is left for VACUUM.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid4

import numpy as np

from penstock.connector.delta.files.roaring import Positions, decode_positions, encode_positions
from penstock.connector.spark.durable_files import replace

Descriptor = Mapping[str, Any]
"""What the log says of a vector: `storageType`, `pathOrInlineDv`, `offset`, `sizeInBytes`, `cardinality`."""

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {character: number for number, character in enumerate(_Z85)}
_UUID_LENGTH = 20
"""Characters of a UUID in base 85."""
_VERSION = 1


class DamagedVectorError(ValueError):
    """A deletion vector is not as it was written, or its file is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFolder:
    """The deletion vectors of a table in a folder of this machine."""

    folder: Path

    def read(self, vector: Descriptor) -> Positions:
        """Return the positions of a vector. Raises DamagedVectorError."""
        try:
            found = decode_positions(self._data(vector))
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise DamagedVectorError(f"{vector.get('pathOrInlineDv')}: {error}") from error
        if len(found) != int(vector["cardinality"]):
            raise DamagedVectorError(f"{vector['pathOrInlineDv']} has another number of rows")
        return found

    def write(self, vectors: Mapping[str, Positions]) -> dict[str, Descriptor]:
        """Write vectors into one file, and return how the log describes each; nothing for none."""
        if not vectors:
            return {}
        uuid = uuid4()
        content = [bytes([_VERSION])]
        described: dict[str, Descriptor] = {}
        offset = 1
        for name, positions in vectors.items():
            data = encode_positions(positions)
            described[name] = {
                "storageType": "u",
                "pathOrInlineDv": encode_z85(uuid.bytes),
                "offset": offset,
                "sizeInBytes": len(data),
                "cardinality": len(positions),
            }
            content.append(
                struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
            )
            offset += len(data) + 8
        replace(self.folder / _file_name(uuid), b"".join(content), umask=None)
        return described

    def has(self, vector: Descriptor) -> bool:
        """Tell whether the file of a vector is there, as far as its size shows."""
        end = int(vector.get("offset") or 0) + int(vector["sizeInBytes"]) + 8
        path = self._path(vector)
        return path is None or (path.exists() and path.stat().st_size >= end)

    def _path(self, vector: Descriptor) -> Path | None:
        """Return the file of a vector; None where the log has it."""
        text = str(vector["pathOrInlineDv"])
        match vector["storageType"]:
            case "i":
                return None
            case "u":
                prefix, uuid = text[:-_UUID_LENGTH], UUID(bytes=decode_z85(text[-_UUID_LENGTH:]))
                return self.folder / prefix / _file_name(uuid)
            case "p":
                return Path(unquote(urlsplit(text).path))
            case other:
                raise ValueError(f"a vector is stored as {other!r}")

    def _data(self, vector: Descriptor) -> bytes:
        size = int(vector["sizeInBytes"])
        path = self._path(vector)
        if path is None:
            return decode_z85(str(vector["pathOrInlineDv"]))[:size]
        with path.open("rb") as file:
            file.seek(int(vector.get("offset") or 0))
            stored = file.read(size + 8)
        if len(stored) != size + 8 or struct.unpack_from(">i", stored) != (size,):
            raise ValueError("it is cut off")
        data = bytes(stored[4:-4])
        if struct.unpack(">I", stored[-4:]) != (zlib.crc32(data),):
            raise ValueError("its checksum is another one")
        return data


def kept_rows(rows: int, deleted: Positions) -> Positions:
    """Return the positions of the rows of a file that are of the table."""
    kept = np.ones(rows, bool)
    kept[deleted] = False
    return np.flatnonzero(kept)


def encode_z85(data: bytes) -> str:
    """Write bytes in base 85, filled up with zeros to a multiple of four."""
    padded = data + b"\0" * (-len(data) % 4)
    return "".join(
        _Z85[number // 85**power % 85]
        for (number,) in struct.iter_unpack(">I", padded)
        for power in (4, 3, 2, 1, 0)
    )


def decode_z85(text: str) -> bytes:
    """Read bytes in base 85, with the zeros that fill them up. Raises ValueError."""
    if len(text) % 5:
        raise ValueError(f"base 85 has groups of five characters, not {len(text)}")
    parts = []
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            if character not in _DIGITS:
                raise ValueError(f"{character!r} is no character of base 85")
            number = number * 85 + _DIGITS[character]
        if number >> 32:
            raise ValueError(f"{text[start : start + 5]!r} is no group of base 85")
        parts.append(struct.pack(">I", number))
    return b"".join(parts)


def _file_name(uuid: UUID) -> str:
    return f"deletion_vector_{uuid}.bin"
