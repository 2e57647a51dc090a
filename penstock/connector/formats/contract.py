"""What a format is: its options, its checks, and a decoder of batches; and how one is found by its name in
`format`, `key.format` or `value.format`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

from penstock.catalog.errors import OptionError, UnsupportedError, did_you_mean
from penstock.catalog.model.types import LogicalType
from penstock.catalog.options.option import Option, Resolved
from penstock.connector.changelog import ChangelogMode

if TYPE_CHECKING:
    import numpy as np  # noqa: TC004
    import numpy.typing as npt  # noqa: TC004
    import pyarrow as pa  # noqa: TC004


Fields: TypeAlias = Sequence[tuple[str, LogicalType]]
"""Names and types of columns, in order."""

Where: TypeAlias = Callable[[int], str]
"""Names a record, by its position in the batch, for people: "topic orders, partition 3, offset 1234"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadValue:
    """A record that could not be decoded: its position among the values given, and why, without the record's text."""

    index: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The rows of some records.

    `kept[i]` is the position, among the values given, of the record that row `i` came from; it never falls, and
    repeats where one record holds several rows. None: row `i` is record `i`. `skipped` counts the records with missing
    rows: tombstones, empty values, and bad records that the options told to leave out. `kinds[i]` is the RowKind of
    row `i`; None: all are inserts. `bad` are the bad records among those that were left out, in order, where the
    decoder was told to list them (`collecting_errors`).
    """

    batch: pa.RecordBatch
    kept: npt.NDArray[np.int64] | None = None
    skipped: int = 0
    kinds: npt.NDArray[np.int8] | None = None
    bad: tuple[BadValue, ...] = ()


class Decoder(Protocol):
    """Decodes batches of one format into fixed columns. Made once a reader; not for several threads at a time."""

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch; a bad record never costs a good one its row.

        Raises BadRecordError for the first bad record, unless the format's options say to skip them.
        """


class Format(Protocol):
    """A kind of bytes, found by name. `prefix` is "" for `format`, else "key." or "value."."""

    @property
    def identifier(self) -> str:
        """The name in the options `format`, `key.format` and `value.format`."""

    @property
    def changes(self) -> ChangelogMode:
        """What its rows are: INSERT_ONLY, unless records say what happened to rows elsewhere."""

    @property
    def metadata(self) -> Mapping[str, LogicalType]:
        """Facts beside the rows that it can deliver as read-only columns, with their types."""

    def options(self, prefix: str = "") -> tuple[Option[Any], ...]:
        """Return the descriptors of the format's options, with full keys ("value.json.ignore-parse-errors")."""

    def check(self, fields: Fields, resolved: Resolved, *, prefix: str = "") -> None:
        """Check options and all the columns that the format is to fill. Raises OptionError or DefinitionError."""

    def skips_bad_records(self, resolved: Resolved, *, prefix: str = "") -> bool:
        """Return whether the options say to leave out bad records."""

    def decoder(
        self, fields: Fields, resolved: Resolved, *, prefix: str = "", metadata: Sequence[str] = ()
    ) -> Decoder:
        """Make a decoder of `fields`: the columns asked for, which may be fewer than were checked, or none.

        `metadata` are keys of `metadata`: a column each behind those of the fields. With no columns nothing is decoded
        by an insert-only format: every value yields a row, even one that is no valid record (a COUNT(*) must not pay
        for unread columns).
        """


@runtime_checkable
class FieldProjecting(Protocol):
    """A format that finds the fields of rows by name: a decoder may be asked for rows with some of their fields."""

    def projects_fields(self, resolved: Resolved, *, prefix: str = "") -> bool:
        """Return whether the options leave it so: that a field is missing must not be an error."""


Encode: TypeAlias = "Callable[[Sequence[pa.Array], int], pa.Array]"
"""Makes the bytes of rows from the columns of their fields and the number of rows; NULL where there is no value."""


@runtime_checkable
class ColumnEncoding(Protocol):
    """A format whose records are encoded from Arrow columns, as `connector/spark/encoding.py` encodes them in Spark."""

    def why_not_encoded(self, fields: Fields, resolved: Resolved, *, prefix: str) -> str | None:
        """Tell why only Spark encodes these fields; None where they are encoded here."""

    def encoder(self, fields: Fields, resolved: Resolved, *, prefix: str) -> Encode:
        """Return the encoder of fields that `why_not_encoded` has nothing against."""


_BUILT_IN = (
    ("canal-json", "penstock.connector.formats.changelog.canal_maxwell:CanalJsonFormat"),
    ("debezium-json", "penstock.connector.formats.changelog.debezium_ogg:DebeziumJsonFormat"),
    ("json", "penstock.connector.formats.json.format:JsonFormat"),
    ("maxwell-json", "penstock.connector.formats.changelog.canal_maxwell:MaxwellJsonFormat"),
    ("ogg-json", "penstock.connector.formats.changelog.debezium_ogg:OggJsonFormat"),
    ("raw", "penstock.connector.formats.raw:RawFormat"),
)
AVRO = (
    "have the records written as json (Kafka Connect: value.converter = "
    "org.apache.kafka.connect.json.JsonConverter), or read them whole, 'format' = 'raw' and a column of BYTES, and "
    "decode them in a function: CREATE FUNCTION ... LANGUAGE PYTHON"
)
_NOT_HERE = {
    "avro": AVRO,
    "avro-confluent": AVRO,
    "debezium-avro-confluent": "set the JSON converter in the Debezium connector, and 'format' = 'debezium-json'",
    "protobuf": "write the records as json, or read them whole by 'format' = 'raw' and a column of BYTES",
    "csv": "declare one column, line STRING, with 'format' = 'raw', and split it in a view: "
    "CAST(SPLIT_INDEX(line, ',', 0) AS INT) AS id, ...; files are written as csv",
    "orc": "'connector' = 'filesystem' writes files of it; a Delta table is read",
    "parquet": "'connector' = 'filesystem' writes files of it; a Delta table is read",
}
"""Formats of Flink that records are not read or written in, and what can be done instead."""


def format_names() -> tuple[str, ...]:
    """Return the names of all formats, sorted."""
    return tuple(name for name, _ in _BUILT_IN)


def find_format(name: str, *, option: str = "format") -> Format:
    """Load the format `name`, which the option `option` gave. Raises OptionError, UnsupportedError."""
    for known, target in _BUILT_IN:
        if known == name:
            module, _, attribute = target.partition(":")
            return cast("Format", getattr(import_module(module), attribute)())
    names = format_names()
    if name in _NOT_HERE:
        raise UnsupportedError(
            f"the format {name!r} (option '{option}') is not supported here; available are: {', '.join(names)}",
            hint=_NOT_HERE[name],
        )
    raise OptionError(
        f"there is no format {name!r} (option '{option}'); available are: {', '.join(names)}",
        hint=did_you_mean(name, names),
    )
