"""What every format keeps (`connector/formats/contract.py`), as tests; a format runs them by a class with its context.

The rules of one format's values are in its own tests.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from penstock.catalog.errors import BadRecordError
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.options.option import Resolved, resolve
from penstock.connector.arrow import arrow_schema
from penstock.connector.changelog import ChangelogMode
from penstock.connector.formats import Decoded, Fields, Format, find_format
from penstock.connector.formats.decoders import BisectingDecoder, collecting_errors

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatContext:
    """A format, and records of it.

    `columns` are names and types. `records` are well-formed ones, each with its rows (none, one or more). `bad` cannot
    be decoded; empty where anything can.
    """

    name: str
    columns: Mapping[str, str]
    records: Sequence[tuple[bytes | None, Sequence[Row]]]
    bad: Sequence[bytes] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    ignore_errors: str | None = None
    """The option that leaves out bad records; None where there is none."""

    @property
    def format(self) -> Format:
        """The format itself."""
        return find_format(self.name)

    @property
    def fields(self) -> Fields:
        """The columns as the decoder takes them."""
        return [(name, parse_type(text)) for name, text in self.columns.items()]

    @property
    def values(self) -> list[bytes | None]:
        """The well-formed records."""
        return [value for value, _ in self.records]

    def resolved(self, **more: str) -> Resolved:
        """The options."""
        return resolve({**self.options, **more}, self.format.options(), owner="table t")

    def decode(
        self, values: Sequence[bytes | None], columns: Sequence[str] | None = None
    ) -> Decoded:
        """Decode one batch."""
        fields = [f for f in self.fields if columns is None or f[0] in columns]
        return self.format.decoder(fields, self.resolved()).decode(values, where)


def where(index: int) -> str:
    """Name a record."""
    return f"topic t, partition 0, offset {100 + index}"


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """The rows of a batch with columns."""
    batch.validate(full=True)
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def kept(decoded: Decoded) -> list[int]:
    """The record of each row."""
    return list(range(decoded.batch.num_rows)) if decoded.kept is None else decoded.kept.tolist()


class FormatContract:
    """The suite. A subclass has a fixture `context`."""

    @pytest.fixture
    def context(self) -> FormatContext:
        """The format under test."""
        raise NotImplementedError

    def test_a_format_is_found_by_its_name_and_has_options_of_its_own(
        self, context: FormatContext
    ) -> None:
        """Their keys begin with the name, behind the prefix of key or value."""
        for prefix in ("", "key.", "value."):
            keys = [option.key for option in context.format.options(prefix)]

            assert all(key.startswith(f"{prefix}{context.name}.") for key in keys)
        assert context.format.identifier == context.name

    def test_a_format_takes_its_columns(self, context: FormatContext) -> None:
        """And leaves out no record unless it is told to."""
        context.format.check(context.fields, context.resolved())

        assert not context.format.skips_bad_records(context.resolved())

    def test_a_format_travels_to_a_task(self, context: FormatContext) -> None:
        """It holds no connection and no client."""
        copied = pickle.loads(pickle.dumps(context.format))
        decoded = copied.decoder(context.fields, context.resolved()).decode(context.values, where)

        assert decoded.batch.equals(context.decode(context.values).batch)

    def test_a_batch_gives_the_rows_of_its_records(self, context: FormatContext) -> None:
        """In order, each with its record; their types are exactly those of the table."""
        decoded = context.decode(context.values)
        expected = [(i, row) for i, (_, rows) in enumerate(context.records) for row in rows]

        assert rows_of(decoded.batch) == [row for _, row in expected]
        assert kept(decoded) == [index for index, _ in expected]
        assert decoded.batch.schema.equals(arrow_schema(context.fields))

    def test_rows_have_kinds_where_the_format_is_one_of_changes(
        self, context: FormatContext
    ) -> None:
        """One for each row, among those that the format gives; else all are inserts."""
        kinds = context.decode(context.values).kinds
        if context.format.changes is ChangelogMode.INSERT_ONLY:
            assert kinds is None
        else:
            assert kinds is not None
            assert len(kinds) == sum(len(rows) for _, rows in context.records)
            assert set(kinds.tolist()) <= set(map(int, context.format.changes.kinds))

    def test_a_batch_gives_what_its_records_give_one_by_one(self, context: FormatContext) -> None:
        """Neighbours do not matter."""
        alone = [context.decode([value]) for value in context.values]

        assert rows_of(context.decode(context.values).batch) == [
            row for decoded in alone for row in rows_of(decoded.batch)
        ]
        assert context.decode(context.values).skipped == sum(decoded.skipped for decoded in alone)

    def test_a_batch_of_nothing_has_the_columns(self, context: FormatContext) -> None:
        """Spark checks types once."""
        decoded = context.decode([])

        assert (decoded.batch.num_rows, decoded.skipped) == (0, 0)
        assert decoded.batch.schema.equals(arrow_schema(context.fields))

    def test_fewer_columns_have_the_same_values(self, context: FormatContext) -> None:
        """Those that a query does not name are not decoded."""
        whole = context.decode(context.values).batch
        for name in context.columns:
            alone = context.decode(context.values, [name]).batch

            assert alone.schema.names == [name]
            assert alone.column(0).equals(whole.column(name))

    def test_rows_are_counted_without_columns(self, context: FormatContext) -> None:
        """COUNT(*) decodes no column: a format of inserts gives a row for each record that has any."""
        counted, whole = context.decode(context.values, []), kept(context.decode(context.values))
        if context.format.changes is ChangelogMode.INSERT_ONLY:
            whole = sorted(set(whole))

        assert kept(counted) == whole
        assert counted.batch.num_rows == len(whole)

    def test_a_bad_record_fails_by_its_name(self, context: FormatContext) -> None:
        """The first one, wherever it is."""
        for bad in context.bad:
            for at in (0, len(context.values)):
                values = [*context.values[:at], bad, *context.values[at:], bad]
                with pytest.raises(BadRecordError, match=where(at)):
                    context.decode(values)

    def test_a_bad_record_that_is_listed_costs_no_other_its_row(
        self, context: FormatContext
    ) -> None:
        """Listed with its index, and a reason without its place and text; by the format and by halves alike."""
        good, bad = context.values, list(context.bad)
        values = [*bad, *good, *bad]
        decoder = context.format.decoder(context.fields, context.resolved())
        for collecting in (collecting_errors(decoder), BisectingDecoder(decoder=decoder)):
            decoded = collecting.decode(values, where)
            shifted = [index + len(bad) for index in kept(context.decode(good))]

            assert rows_of(decoded.batch) == rows_of(context.decode(good).batch)
            assert kept(decoded) == shifted
            assert [each.index for each in decoded.bad] == [
                *range(len(bad)),
                *range(len(values) - len(bad), len(values)),
            ]
            assert decoded.skipped == context.decode(good).skipped + len(decoded.bad)
            assert not any("topic t" in each.error for each in decoded.bad)

    def test_bad_records_are_left_out_and_counted_where_the_options_say_so(
        self, context: FormatContext
    ) -> None:
        """Flink's ignore-parse-errors, where the format has it."""
        if context.ignore_errors is None:
            return
        resolved = context.resolved(**{context.ignore_errors: "true"})
        decoder = context.format.decoder(context.fields, resolved)
        decoded = decoder.decode([*context.bad, *context.values], where)

        assert context.format.skips_bad_records(resolved)
        assert rows_of(decoded.batch) == rows_of(context.decode(context.values).batch)
        assert decoded.skipped == context.decode(context.values).skipped + len(context.bad)

    def test_no_bytes_are_more_than_a_bad_record(self, context: FormatContext) -> None:
        """Whatever a producer writes, a task ends with rows or with the product's error."""
        for value in (b"", b"\x00", b"\xff\xfe", b"{", b"[", b"null", b'"', b"{}" * 9, b"[{}, 1]"):
            decoder = context.format.decoder(context.fields, context.resolved())
            decoded = collecting_errors(decoder).decode([value], where)

            assert rows_of(decoded.batch) == [] or not decoded.bad
            assert decoded.skipped >= len(decoded.bad)
