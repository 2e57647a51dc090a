"""What a WITH clause may say about writing: each option is acted on, or refused when it is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import DefinitionError, InputError, OptionError, UnsupportedError
from penstock.connector.filesystem.connector import FilesystemConnector
from penstock.connector.filesystem.sink.target import FileTarget, SinkOptions, read_target
from tests.connector.filesystem.tables import file_table

COLUMNS = {"id": "BIGINT", "at": "TIMESTAMP(3)", "day": "DATE"}


def target(options: dict[str, str | None] | None = None, path: str = "/data") -> FileTarget:
    table = file_table(path, options, columns=COLUMNS, partitions=["day"])
    FilesystemConnector(project=Path("/")).check(table)
    return read_target(table, Path("/"))


def refusal(
    options: dict[str, str | None], columns: dict[str, str] | None = None, **more: object
) -> InputError:
    with pytest.raises(InputError) as caught:
        read_target(
            file_table("/data", options, columns=columns or COLUMNS, **more),  # type: ignore[arg-type]
            Path("/"),
        )
    return caught.value


def test_a_plain_table_is_written_as_spark_makes_files() -> None:
    """No options: the query's tasks, a file each, no success files."""
    plain = target()

    assert plain.options == SinkOptions()
    assert (plain.root, plain.partition_keys) == ("/data", ("day",))
    assert plain.default_partition == "__DEFAULT_PARTITION__"


def test_every_option_of_the_sink_is_understood() -> None:
    """Values arrive typed."""
    options = target(
        {
            "sink.parallelism": "3",
            "sink.max-rows-per-file": "1000",
            "sink.shuffle-by-partition.enable": "true",
            "sink.partition-commit.trigger": "process-time",
            "sink.partition-commit.delay": "0 s",
            "sink.partition-commit.policy.kind": "success-file",
            "sink.partition-commit.success-file.name": "_DONE",
            "auto-compaction": "false",
        }
    ).options

    assert options == SinkOptions(
        parallelism=3, max_rows_per_file=1000, shuffle_by_partition=True, success_file="_DONE"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sink.rolling-policy.file-size", "1 mb"),
        ("sink.rolling-policy.rollover-interval", "1 min"),
        ("sink.rolling-policy.check-interval", "1 min"),
        ("sink.rolling-policy.inactivity-interval", "1 min"),
        ("sink.partition-commit.trigger", "partition-time"),
        ("sink.partition-commit.delay", "1 h"),
        ("sink.partition-commit.watermark-time-zone", "UTC"),
        ("sink.partition-commit.policy.kind", "metastore,success-file"),
        ("sink.partition-commit.policy.kind", "custom"),
        ("sink.partition-commit.policy.class", "x.Y"),
        ("sink.partition-commit.policy.class.parameters", "a;b"),
        ("partition.time-extractor.kind", "default"),
        ("partition.time-extractor.class", "x.Y"),
        ("partition.time-extractor.timestamp-pattern", "$day"),
        ("partition.time-extractor.timestamp-formatter", "yyyy"),
        ("auto-compaction", "true"),
        ("compaction.file-size", "1 mb"),
    ],
)
def test_what_is_not_done_is_refused_when_it_is_written_and_not_when_it_is_read(
    key: str, value: str
) -> None:
    """A table of Flink's may carry them; the error says what works instead."""
    error = refusal({key: value}, partitions=["day"])
    FilesystemConnector(project=Path("/")).check(file_table("/data", {key: value}))

    assert isinstance(error, UnsupportedError)
    assert key in error.message or value.split(",", maxsplit=1)[0] in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"sink.parallelism": "0"}, "must be at least 1"),
        ({"sink.max-rows-per-file": "-1"}, "must be at least 1"),
        ({"sink.partition-commit.policy.kind": "sucess-file"}, "names no policy"),
        (
            {
                "sink.partition-commit.policy.kind": "success-file",
                "sink.partition-commit.success-file.name": "DONE",
            },
            "would be read",
        ),
        ({"format": "jsonn"}, "no format 'jsonn'"),
        ({"format": "csv", "csv.field-delimiter": "||"}, "not one character"),
        ({"format": "parquet", "parquet.compression": "RAR"}, "is not one of"),
        ({"format": "parquet", "csv.null-literal": "x"}, "unsupported option"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str | None], part: str) -> None:
    """Before anything is written."""
    error = refusal(options, partitions=["day"])

    assert isinstance(error, OptionError)
    assert part in error.message


def test_a_policy_is_for_tables_with_partitions() -> None:
    """There are no folders otherwise."""
    error = refusal({"sink.partition-commit.policy.kind": "success-file"})

    assert "not PARTITIONED BY" in error.message


@pytest.mark.parametrize(
    ("options", "columns", "more", "kind", "part"),
    [
        ({}, {"id": "INT", "t": "TIME"}, {}, DefinitionError, "no type TIME"),
        ({"format": "csv"}, {"a": "ARRAY<INT>"}, {}, DefinitionError, "no type ARRAY<INT>"),
        ({"format": "csv"}, {"a": "BYTES"}, {}, DefinitionError, "no type BYTES"),
        ({"format": "raw"}, {"n": "INT"}, {}, UnsupportedError, "lines of text"),
        ({"format": "raw", "raw.charset": "UTF-16"}, {"s": "STRING"}, {}, UnsupportedError, "text"),
        (
            {"format": "csv", "csv.disable-quote-character": "true"},
            {"s": "STRING"},
            {},
            UnsupportedError,
            "disable-quote",
        ),
        ({}, {"id": "INT"}, {"partitions": ["id"]}, DefinitionError, "all of its columns"),
        (
            {},
            {"id": "INT", "_d": "INT"},
            {"partitions": ["_d"]},
            UnsupportedError,
            "nobody would read",
        ),
    ],
)
def test_what_files_cannot_hold_is_refused(
    options: dict[str, str | None],
    columns: dict[str, str],
    more: dict[str, object],
    kind: type[InputError],
    part: str,
) -> None:
    """By its column."""
    error = refusal(options, columns, **more)

    assert isinstance(error, kind)
    assert part in error.message


def test_formats_that_are_written_only_are_tables_that_cannot_be_read() -> None:
    """CREATE TABLE takes them, SELECT does not."""
    table = file_table("/data", {"format": "parquet"})
    FilesystemConnector(project=Path("/")).check(table)
    with pytest.raises(UnsupportedError, match="'parquet' are written, not read"):
        FilesystemConnector(project=Path("/")).source(table)


def test_locations_have_hadoops_names() -> None:
    """The source's s3 is Hadoop's s3a; keys of a URL are not shown."""
    s3 = target(path="s3://key:hunter2@bucket/orders/")

    assert s3.root == "s3a://key:hunter2@bucket/orders"
    assert "hunter2" not in repr(s3)


def test_timestamps_are_written_in_the_standard_that_is_read() -> None:
    """Flink's three, with six digits."""
    formats = [
        target({"json.timestamp-format.standard": name}).format.options["timestampNTZFormat"]
        for name in ("SQL", "ISO-8601", "ISO-8601-WITH-OFFSET")
    ]

    assert formats == [
        "yyyy-MM-dd HH:mm:ss.SSSSSS",
        "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
        "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    ]
