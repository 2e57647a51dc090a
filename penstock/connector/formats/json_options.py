"""The options of the format `json`: Flink's names, defaults and checks (JsonFormatOptions, JsonFormatOptionsUtil)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.catalog.errors import OptionError
from penstock.catalog.options import BOOLEAN, STRING, Option, Resolved, enum_type

__all__ = ["JsonSettings", "TimestampStandard", "json_options", "json_settings"]


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
    """What the options say about reading. `ignore_key` is the full key of ignore-parse-errors, for hints."""

    fail_on_missing_field: bool = False
    ignore_parse_errors: bool = False
    standard: TimestampStandard = _STANDARDS["SQL"]
    ignore_key: str = "json.ignore-parse-errors"


def json_options(prefix: str) -> tuple[Option[Any], ...]:
    """Give the descriptors, their keys beginning with `prefix` and `json.`."""
    return (
        _fail_on_missing_field(prefix),
        _ignore_parse_errors(prefix),
        _timestamp_standard(prefix),
        Option(
            key=f"{prefix}json.map-null-key.mode",
            type=enum_type("FAIL", "DROP", "LITERAL"),
            default="FAIL",
            doc="What writing does with a NULL key of a map; reading meets none.",
        ),
        Option(
            key=f"{prefix}json.map-null-key.literal",
            type=STRING,
            default="null",
            doc="The text written for a NULL key where map-null-key.mode is LITERAL.",
        ),
        Option(
            key=f"{prefix}json.encode.decimal-as-plain-number",
            type=BOOLEAN,
            default=False,
            doc="Whether decimals are written without an exponent.",
        ),
        Option(
            key=f"{prefix}json.encode.ignore-null-fields",
            type=BOOLEAN,
            default=False,
            doc="Whether NULL fields are left out when writing.",
        ),
        Option(
            key=f"{prefix}json.decode.json-parser.enabled",
            type=BOOLEAN,
            default=True,
            doc="Which of Flink's two parsers to use; here there is one, which gives the same with both.",
        ),
    )


def json_settings(resolved: Resolved, prefix: str) -> JsonSettings:
    """Read the options. Raises OptionError where two of them contradict each other."""
    missing, ignore = _fail_on_missing_field(prefix), _ignore_parse_errors(prefix)
    if resolved.get(missing) and resolved.get(ignore):
        raise OptionError(
            f"'{missing.key}' and '{ignore.key}' shouldn't both be true",
            hint=f"a missing field either fails the query or is NULL: set one of them to 'false'; {ignore.doc}",
        )
    return JsonSettings(
        fail_on_missing_field=resolved.get(missing),
        ignore_parse_errors=resolved.get(ignore),
        standard=_STANDARDS[resolved.get(_timestamp_standard(prefix))],
        ignore_key=ignore.key,
    )


def _fail_on_missing_field(prefix: str) -> Option[bool]:
    return Option(
        key=f"{prefix}json.fail-on-missing-field",
        type=BOOLEAN,
        default=False,
        doc="Whether a record without one of the fields is a bad record; else the field is NULL.",
    )


def _ignore_parse_errors(prefix: str) -> Option[bool]:
    return Option(
        key=f"{prefix}json.ignore-parse-errors",
        type=BOOLEAN,
        default=False,
        doc="Whether a malformed field becomes NULL and a malformed record is skipped and counted; else both fail.",
    )


def _timestamp_standard(prefix: str) -> Option[str]:
    return Option(
        key=f"{prefix}json.timestamp-format.standard",
        type=enum_type(*_STANDARDS),
        default="SQL",
        doc="How timestamps are written: 'yyyy-MM-dd HH:mm:ss.s', or ISO-8601 with 'T', or that with an offset.",
    )
