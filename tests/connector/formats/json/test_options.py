"""Options of the format json: Flink's names, defaults and checks, with and without a prefix."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import BadRecordError, DefinitionError, OptionError, UnsupportedError
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.options.option import resolve
from penstock.connector.formats.json.format import JsonFormat

FORMAT = JsonFormat()


def resolved(options, prefix=""):
    """Options as a table gives them."""
    return resolve(options, FORMAT.options(prefix), owner="table t")


def test_the_options_are_flinks():
    """All keys of JsonFormatOptions, after the prefix."""
    keys = {
        "fail-on-missing-field",
        "ignore-parse-errors",
        "timestamp-format.standard",
        "map-null-key.mode",
        "map-null-key.literal",
        "encode.decimal-as-plain-number",
        "encode.ignore-null-fields",
        "decode.json-parser.enabled",
    }

    assert {option.key for option in FORMAT.options()} == {f"json.{key}" for key in keys}
    assert {option.key for option in FORMAT.options("key.")} == {f"key.json.{key}" for key in keys}


@pytest.mark.parametrize("prefix", ["", "value."])
def test_failing_on_missing_fields_and_ignoring_errors_exclude_each_other(prefix):
    """As JsonFormatOptionsUtil says it."""
    options = {
        f"{prefix}json.fail-on-missing-field": "true",
        f"{prefix}json.ignore-parse-errors": "true",
    }
    with pytest.raises(
        OptionError, match=f"'{prefix}json.ignore-parse-errors' shouldn't both be true"
    ):
        FORMAT.check([], resolved(options, prefix), prefix=prefix)


def test_an_unknown_timestamp_standard_is_refused():
    """The three of Flink, in any case."""
    with pytest.raises(OptionError, match="'SQL', 'ISO-8601', 'ISO-8601-WITH-OFFSET'"):
        resolved({"json.timestamp-format.standard": "RFC"})
    FORMAT.check([], resolved({"json.timestamp-format.standard": "iso-8601"}))


def test_options_of_key_and_value_are_their_own():
    """The prefix tells them apart."""
    options = resolved({"value.json.ignore-parse-errors": "true"}, "value.")

    assert FORMAT.skips_bad_records(options, prefix="value.")
    assert not FORMAT.skips_bad_records(options, prefix="key.")


def test_an_error_names_the_option_with_its_prefix():
    """What the hint says can be pasted."""
    decoder = FORMAT.decoder([("a", parse_type("INT"))], resolved({}, "key."), prefix="key.")
    with pytest.raises(BadRecordError) as caught:
        decoder.decode([b"?"], str)

    assert "'key.json.ignore-parse-errors'" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "logical",
    [
        "MAP<INT, STRING>",
        "MULTISET<INT>",
        "ROW<a ARRAY<MAP<DATE, INT>>>",
        "MAP<STRING, MAP<INT, INT>>",
    ],
)
def test_maps_have_texts_for_keys(logical):
    """Keys of JSON objects are texts: refused when the table is checked."""
    with pytest.raises(DefinitionError, match="doesn't support non-string as key type of map"):
        FORMAT.check([("m", parse_type(logical))], resolved({}))


def test_types_that_no_record_holds_are_refused():
    """Intervals."""
    with pytest.raises(UnsupportedError, match="INTERVAL"):
        FORMAT.check([("i", parse_type("INTERVAL DAY TO SECOND"))], resolved({}))
