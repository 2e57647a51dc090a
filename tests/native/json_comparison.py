"""What the native package makes of JSON records beside what Penstock's own decoder makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from penstock.catalog.errors import BadRecordError
from penstock.connector.formats import Decoded
from penstock.connector.formats.decoders import collecting_errors
from penstock.connector.formats.json.decoder import JsonDecoder
from penstock.connector.formats.json.lines import to_lines
from penstock.connector.formats.values import ArrowValues
from tests.connector.formats.decoding import make_decoder, where

native = pytest.importorskip("penstock_native", reason="built by `make native`, where cargo is")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is seen of a decoded batch; numbers by their bits."""

    columns: tuple[tuple[Any, ...], ...]
    kept: tuple[int, ...]
    skipped: int
    bad: tuple[tuple[int, str], ...]


def outcome(decoded: Decoded, count: int) -> Outcome:
    """All of a batch, which is well-formed."""
    decoded.batch.validate(full=True)
    kept = range(count) if decoded.kept is None else decoded.kept.tolist()
    return Outcome(
        columns=tuple(tuple(bits(column).to_pylist()) for column in decoded.batch.columns),
        kept=tuple(kept),
        skipped=decoded.skipped,
        bad=tuple((bad.index, bad.error) for bad in decoded.bad),
    )


def bits(column: pa.Array) -> pa.Array:
    """Values in which 0 and -0 differ, and years that Python has not are numbers."""
    match column.type:
        case pa.DataType(id=pa.lib.Type_FLOAT):
            return column.view(pa.int32())
        case pa.DataType(id=pa.lib.Type_DOUBLE) | pa.TimestampType():
            return column.view(pa.int64())
        case pa.DataType(id=pa.lib.Type_DATE32):
            return column.view(pa.int32())
        case pa.StructType() if column.type.num_fields:
            fields = [bits(column.field(index)) for index in range(column.type.num_fields)]
            names = [field.name for field in column.type]
            return pa.StructArray.from_arrays(fields, names, mask=column.is_null())
    return column


def both(columns: Mapping[str, str], options: Mapping[str, str]) -> tuple[JsonDecoder, JsonDecoder]:
    """Decoders of the same columns, without and with the package."""
    plain = make_decoder(columns, options)
    assert isinstance(plain, JsonDecoder)
    reading = plain.natively(native)
    assert reading._native is not None
    return plain, reading


def compare(
    columns: Mapping[str, str], options: Mapping[str, str], records: Sequence[bytes | None]
) -> None:
    """Check that rows, bad records and the first error are the same."""
    plain, reading = both(columns, options)
    for values in (records, ArrowValues.of_lines(to_lines(records))):
        expected = collecting_errors(plain).decode(records, where)
        found = collecting_errors(reading).decode(values, where)
        assert outcome(found, len(records)) == outcome(expected, len(records))
        assert found.batch.schema == expected.batch.schema
    assert raised(reading, records) == raised(plain, records)


def raised(decoder: JsonDecoder, records: Sequence[bytes | None]) -> str | Outcome:
    """The error of a batch, or what it gives."""
    try:
        return outcome(decoder.decode(records, where), len(records))
    except BadRecordError as error:
        return str(error)


def check_single(
    columns: Mapping[str, str], options: Mapping[str, str], batch: Sequence[bytes]
) -> int:
    """Compare what is read natively, and return how many records that are."""
    _, decoder = both(columns, options)
    assert decoder._native is not None
    found, refused = decoder._native.read(to_lines(batch))
    left = set(refused.tolist())
    taken = [record for index, record in enumerate(batch) if index not in left]
    single = [decoder._records.read(record) for record in taken]
    assert [rows.problem for rows in single] == [None] * len(taken)
    assert [len(rows.rows) for rows in single] == [1] * len(taken)
    for index, column in enumerate(found):
        expected = pa.array([rows.rows[0][index] for rows in single], column.type)
        assert bits(column).to_pylist() == bits(expected).to_pylist()
    return len(taken)
