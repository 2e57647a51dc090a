"""Changes of rows as envelopes of Debezium, Canal, Maxwell and GoldenGate: Spark SQL, as Flink's encoders write them.

Each change is a record of its own, an update two: the row before it as a deletion, the row after it as an insertion
(DebeziumJsonSerializationSchema and those of the others). So they hold operations of two kinds only.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import spark_literal
from penstock.catalog.options.option import Resolved
from penstock.connector.changelog import RowKind
from penstock.connector.formats import Format
from penstock.connector.formats.json.options import envelope_settings
from penstock.connector.spark.encoding.json import JsonWriting, Members, json_expression

__all__ = ["change_expression"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Envelope:
    """What stands before and behind the row: of one that comes, and of one that goes."""

    comes: tuple[str, str]
    goes: tuple[str, str]


_ENVELOPES = {
    "debezium-json": _Envelope(
        comes=('{"before":null,"after":', ',"op":"c"}'),
        goes=('{"before":', ',"after":null,"op":"d"}'),
    ),
    "canal-json": _Envelope(
        comes=('{"data":[', '],"type":"INSERT"}'), goes=('{"data":[', '],"type":"DELETE"}')
    ),
    "maxwell-json": _Envelope(
        comes=('{"data":', ',"type":"insert"}'), goes=('{"data":', ',"type":"delete"}')
    ),
    "ogg-json": _Envelope(
        comes=('{"before":null,"after":', ',"op_type":"I"}'),
        goes=('{"before":', ',"after":null,"op_type":"D"}'),
    ),
}
_SCHEMA = "schema-include"
_PLAIN = "encode.decimal-as-plain-number"


def change_expression(
    format_: Format, members: Members, resolved: Resolved, *, prefix: str, kind: str | None
) -> str | None:
    """Return the Spark SQL of an envelope's text; None for a format that has none.

    `kind` is the Spark SQL of the row's kind, None where every row is an insert. Raises UnsupportedError.
    """
    envelope = _ENVELOPES.get(format_.identifier)
    if envelope is None:
        return None
    row = json_expression(members, _writing(format_, resolved, prefix))
    if kind is None:
        begin, end = map(spark_literal, envelope.comes)
    else:
        gone = f"{kind} IN ({RowKind.UPDATE_BEFORE.value}, {RowKind.DELETE.value})"
        begin, end = (
            f"CASE WHEN {gone} THEN {spark_literal(goes)} ELSE {spark_literal(comes)} END"
            for comes, goes in zip(envelope.comes, envelope.goes, strict=True)
        )
    return f"concat({begin}, {row}, {end})"


def _writing(format_: Format, resolved: Resolved, prefix: str) -> JsonWriting:
    base = f"{prefix}{format_.identifier}."
    options = {option.key.removeprefix(base): option for option in format_.options(prefix)}
    if _SCHEMA in options and resolved.get(options[_SCHEMA]):
        raise UnsupportedError(
            f"Debezium JSON serialization doesn't support '{base}{_SCHEMA}' option been set to true",
            hint="leave it out: records are written without their schema",
        )
    return JsonWriting(
        standard=envelope_settings(resolved, base).standard,
        ignores_nulls=False,
        plain_decimals=resolved.get(options[_PLAIN]),
    )
