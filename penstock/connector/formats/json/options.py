"""The options of the format `json`, and those that the formats of changes in JSON share with it.

Flink's names, defaults and checks (JsonFormatOptions, JsonFormatOptionsUtil).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from penstock.catalog.errors import OptionError
from penstock.catalog.options.option import (
    BOOLEAN,
    STRING,
    Option,
    OptionScope,
    Resolved,
    enum_type,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampStandard:
    """How timestamps are written: what stands between date and time, and whether an offset ends them.

    Without `offset`, TIMESTAMP ends with the time and TIMESTAMP_LTZ with "Z". `resolves_strictly`: 30 February
    in a TIMESTAMP is an error, not the last of the month (ResolverStyle of the formats in Flink's TimeFormats).
    """

    separator: str
    seconds_required: bool
    resolves_strictly: bool
    offset: bool = False


_STANDARDS = {
    "SQL": TimestampStandard(separator=" ", seconds_required=True, resolves_strictly=False),
    "ISO-8601": TimestampStandard(separator="T", seconds_required=False, resolves_strictly=True),
    "ISO-8601-WITH-OFFSET": TimestampStandard(
        separator="T", seconds_required=False, resolves_strictly=False, offset=True
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSettings:
    """The options for reading. `ignore_key` is the full key of ignore-parse-errors, for hints.

    `explode_arrays`: a record that is an array yields a row for each object in it, else it is a bad record.
    """

    fail_on_missing_field: bool = False
    ignore_parse_errors: bool = False
    standard: TimestampStandard = _STANDARDS["SQL"]
    ignore_key: str = "json.ignore-parse-errors"
    explode_arrays: bool = True


@cache
def json_options(prefix: str) -> tuple[Option[Any], ...]:
    """Return the descriptors, their keys beginning with `prefix` and `json.`."""
    base = f"{prefix}json."
    return (
        _fail_on_missing_field(base),
        _ignore_parse_errors(base),
        _timestamp_standard(base),
        *_writing(base),
        Option(
            key=f"{base}encode.ignore-null-fields",
            type=BOOLEAN,
            default=False,
            doc="Whether NULL fields are left out when writing.",
            scope=OptionScope.SINK,
        ),
        Option(
            key=f"{base}decode.json-parser.enabled",
            type=BOOLEAN,
            default=True,
            doc="Accepted without effect: there is one parser, which gives the same as Flink's two.",
            scope=OptionScope.SOURCE,
            flink="which of two parsers reads",
        ),
    )


def json_settings(resolved: Resolved, prefix: str) -> JsonSettings:
    """Read the options. Raises OptionError where two of them contradict each other."""
    base = f"{prefix}json."
    missing, ignore = _fail_on_missing_field(base), _ignore_parse_errors(base)
    if resolved.get(missing) and resolved.get(ignore):
        raise OptionError(
            f"'{missing.key}' and '{ignore.key}' shouldn't both be true",
            hint=f"a missing field either fails the query or is NULL: set one of them to 'false'; {ignore.doc}",
        )
    return JsonSettings(
        fail_on_missing_field=resolved.get(missing),
        ignore_parse_errors=resolved.get(ignore),
        standard=_STANDARDS[resolved.get(_timestamp_standard(base))],
        ignore_key=ignore.key,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonWriting:
    """What the options say about writing. `map-null-key.*` has no say: a map of Spark's has no NULL key."""

    standard: TimestampStandard
    ignores_nulls: bool
    plain_decimals: bool


def json_writing(resolved: Resolved, prefix: str) -> JsonWriting:
    """Read the options of a table's key or value. Raises OptionError."""

    def value(key: str) -> Any:
        (option,) = (o for o in json_options(prefix) if o.key == f"{prefix}json.{key}")
        return resolved.get(option)

    return JsonWriting(
        standard=json_settings(resolved, prefix).standard,
        ignores_nulls=value("encode.ignore-null-fields"),
        plain_decimals=value("encode.decimal-as-plain-number"),
    )


def envelope_options(base: str) -> tuple[Option[Any], ...]:
    """Return what the formats of changes in JSON have in common; `base` ends their keys, as in `value.canal-json.`."""
    return (_ignore_parse_errors(base), _timestamp_standard(base), *_writing(base))


def envelope_settings(resolved: Resolved, base: str) -> JsonSettings:
    """Read `envelope_options`. As in Flink a field that is missing is NULL, and a record is one envelope."""
    ignore = _ignore_parse_errors(base)
    return JsonSettings(
        ignore_parse_errors=resolved.get(ignore),
        standard=_STANDARDS[resolved.get(_timestamp_standard(base))],
        ignore_key=ignore.key,
        explode_arrays=False,
    )


def _writing(base: str) -> tuple[Option[Any], ...]:
    return (
        Option(
            key=f"{base}map-null-key.mode",
            type=enum_type("FAIL", "DROP", "LITERAL"),
            default="FAIL",
            doc="What writing does with a NULL key of a map; reading meets none.",
            scope=OptionScope.SINK,
        ),
        Option(
            key=f"{base}map-null-key.literal",
            type=STRING,
            default="null",
            doc="The text written for a NULL key where map-null-key.mode is LITERAL.",
            scope=OptionScope.SINK,
        ),
        Option(
            key=f"{base}encode.decimal-as-plain-number",
            type=BOOLEAN,
            default=False,
            doc="Whether decimals are written without an exponent.",
            scope=OptionScope.SINK,
        ),
    )


@cache
def _fail_on_missing_field(base: str) -> Option[bool]:
    return Option(
        key=f"{base}fail-on-missing-field",
        type=BOOLEAN,
        default=False,
        doc="Whether a record without one of the fields is a bad record; else the field is NULL.",
        scope=OptionScope.SOURCE,
    )


@cache
def _ignore_parse_errors(base: str) -> Option[bool]:
    return Option(
        key=f"{base}ignore-parse-errors",
        type=BOOLEAN,
        default=False,
        doc="Whether a malformed field becomes NULL and a malformed record is skipped and counted; else both fail.",
        scope=OptionScope.SOURCE,
    )


@cache
def _timestamp_standard(base: str) -> Option[str]:
    return Option(
        key=f"{base}timestamp-format.standard",
        type=enum_type(*_STANDARDS),
        default="SQL",
        doc="How timestamps are written: 'yyyy-MM-dd HH:mm:ss.s', or ISO-8601 with 'T', or that with an offset.",
    )
