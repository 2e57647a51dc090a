"""The format `json`: Flink's options and meaning. What decodes it is in `decoder.py`, and loaded when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote
from penstock.catalog.options.option import Option, Resolved
from penstock.connector.changelog import ChangelogMode
from penstock.connector.checks import check_record_type
from penstock.connector.formats.contract import Decoder, Encode, Fields
from penstock.connector.formats.json.options import json_options, json_settings, json_writing

_ENCODED = (
    t.BooleanType,
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.DecimalType,
    t.CharType,
    t.VarCharType,
    t.BinaryType,
    t.VarBinaryType,
    t.DateType,
    t.TimestampType,
    t.TimestampLtzType,
)
"""Types that `encoder.py` writes, beside rows and arrays of them."""


class JsonFormat:
    """The format `json`."""

    identifier = "json"
    changes = ChangelogMode.INSERT_ONLY
    metadata: Mapping[str, t.LogicalType] = {}

    def options(self, prefix: str = "") -> tuple[Option[Any], ...]:
        """Return the descriptors of the options, with full keys."""
        return json_options(prefix)

    def check(self, fields: Fields, resolved: Resolved, *, prefix: str = "") -> None:
        """Check options and columns. Raises OptionError, DefinitionError or UnsupportedError."""
        json_settings(resolved, prefix)
        for name, logical in fields:
            check_record_type(logical)
            check_keys(name, logical, self.identifier)

    def skips_bad_records(self, resolved: Resolved, *, prefix: str = "") -> bool:
        """Return whether json.ignore-parse-errors is set."""
        return json_settings(resolved, prefix).ignore_parse_errors

    def projects_fields(self, resolved: Resolved, *, prefix: str = "") -> bool:
        """Return whether a field may be missing; with json.fail-on-missing-field all are looked for."""
        return not json_settings(resolved, prefix).fail_on_missing_field

    def decoder(
        self,
        fields: Fields,
        resolved: Resolved,
        *,
        prefix: str = "",
        metadata: Sequence[str] = (),
    ) -> Decoder:
        """Make a decoder of `fields`."""
        from penstock.connector.formats.json.decoder import JsonDecoder

        assert not metadata, "it has none"
        self.check(fields, resolved, prefix=prefix)
        return JsonDecoder(fields, json_settings(resolved, prefix))

    def why_not_encoded(
        self,
        fields: Fields,
        resolved: Resolved,  # noqa: ARG002  of the contract
        *,
        prefix: str,  # noqa: ARG002
    ) -> str | None:
        """Fractions, maps and TIME are encoded by Spark alone (`ColumnEncoding`)."""
        for name, logical in fields:
            part = _unencoded(logical)
            if part is not None:
                return f"column {quote(name)}: {part} in JSON"
        return None

    def encoder(self, fields: Fields, resolved: Resolved, *, prefix: str) -> Encode:
        """Return the encoder of the fields."""
        from penstock.connector.formats.json.encoder import JsonEncoder

        return JsonEncoder(fields, json_writing(resolved, prefix)).encode


def check_keys(name: str, logical: t.LogicalType, identifier: str) -> None:
    """Refuse maps whose keys are no texts, as in Flink; `identifier` is the format's. Raises DefinitionError."""
    match logical:
        case t.MapType(key=key, value=value):
            if not isinstance(key, t.CharType | t.VarCharType):
                raise DefinitionError(
                    f"column {name!r}: the format '{identifier}' doesn't support non-string as key type of map; "
                    f"the type is {logical}",
                    hint="keys of JSON objects are texts: use MAP<STRING, ...>",
                )
            check_keys(name, value, identifier)
        case t.MultisetType(element=element):
            check_keys(name, t.MapType(key=element, value=t.IntType()), identifier)
        case t.ArrayType(element=element):
            check_keys(name, element, identifier)
        case t.RowType(fields=fields):
            for field in fields:
                check_keys(f"{name}.{field.name}", field.type, identifier)


def _unencoded(logical: t.LogicalType) -> t.LogicalType | None:
    """Return the first part of a type that only Spark encodes; None where there is none.

    Java writes fractions with digits of its own.
    """
    match logical:
        case t.ArrayType(element=element):
            return _unencoded(element)
        case t.RowType(fields=fields):
            parts = (_unencoded(field.type) for field in fields)
            return next((part for part in parts if part is not None), None)
    return None if isinstance(logical, _ENCODED) else logical
