"""What a WITH clause of a filesystem table may say: Flink's options, defaults, rules and messages."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.catalog.errors import DefinitionError, InputError, OptionError, UnsupportedError
from penstock.connector.contract import FetcherModel, SourceKind
from penstock.connector.filesystem.connector import FilesystemConnector
from penstock.connector.registry import connector_of
from tests.connector.filesystem.tables import file_source, file_table, planning

ROOT = Path(__file__).resolve().parents[3]


def refusal(options: dict[str, str | None], **more: object) -> InputError:
    """The error that a definition is refused with."""
    with pytest.raises(InputError) as caught:
        FilesystemConnector(project=Path("/")).check(file_table("/data", options, **more))  # type: ignore[arg-type]
    return caught.value


def test_a_plain_table_is_a_static_folder_read_file_by_file() -> None:
    """Without an interval the folder is listed once and the scan ends; a batch has a quarter of a gigabyte."""
    source = file_source("/data")

    assert source.kind is SourceKind.SPLITS
    assert source.bounded
    assert source.discovery_interval_ms == -1
    assert source.fetching is FetcherModel.SEQUENTIAL
    assert (source.parallelism, source.max_records_per_batch) == (None, 256 << 20)
    assert not source.skips_bad_records
    assert not source.tolerates_loss


def test_every_option_of_the_scan_is_understood() -> None:
    """Values arrive typed; an interval makes the scan one without an end."""
    source = file_source(
        "/data",
        {
            "source.monitor-interval": "10 s",
            "source.path.regex-pattern": "/data/.*[.]json",
            "source.report-statistics": "none",
            "source.max-bytes-per-batch": "1 mb",
            "scan.parallelism": "3",
            "scan.watermark.idle-timeout": "1 min",
            "partition.default-name": "NONE",
            "json.ignore-parse-errors": "true",
            "sink.rolling-policy.file-size": "1 mb",
            "auto-compaction": "true",
        },
    )

    assert not source.bounded
    assert source.discovery_interval_ms == 10_000
    assert (source.parallelism, source.max_records_per_batch) == (3, 1 << 20)
    assert source.watermark.idle_timeout_ms == 60_000
    assert source.table.partitioning.default_name == "NONE"
    assert source.skips_bad_records


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"path": None, "format": None}, "missing: format, path"),
        ({"path": " "}, "'path' is empty"),
        ({"format": "jsonn"}, "no format 'jsonn'"),
        ({"source.monitor-interval": "0 s"}, "must be more than nothing"),
        ({"scan.parallelism": "0"}, "must be at least 1"),
        ({"source.max-bytes-per-batch": "0"}, "must be at least 1"),
        ({"source.path.regex-pattern": "a[&&b]"}, "'&&' is not supported here"),
        ({"source.path.regex-pattern": "("}, "'source.path.regex-pattern' = '('"),
        ({"source.monitor-intervall": "1 s"}, "unsupported option"),
        ({"scan.watermark.alignment.group": "g"}, "max-drift"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str | None], part: str) -> None:
    """Each with the table's name, before anything is read."""
    error = refusal(options)

    assert isinstance(error, OptionError)
    assert part in error.message


def test_files_of_changes_are_refused() -> None:
    """With what reads them."""
    error = refusal({"format": "debezium-json"})

    assert isinstance(error, UnsupportedError)
    assert "'connector' = 'kafka'" in (error.hint or "")


def test_the_format_decodes_the_columns_that_are_not_in_the_path() -> None:
    """The format raw fills one column: a partition column beside it is none of its."""
    columns = {"line": "STRING", "day": "DATE"}

    assert "single physical column" in refusal({"format": "raw"}, columns=columns).message
    FilesystemConnector(project=Path("/")).check(
        file_table("/data", {"format": "raw"}, columns=columns, partitions=["day"])
    )


def test_a_partition_column_is_a_plain_physical_column() -> None:
    """As Flink converts them; a time with a zone has no spelling in a path."""
    kind = {"id": "BIGINT", "at": "TIMESTAMP_LTZ(3)"}
    of_type = refusal({}, columns=kind, partitions=["at"])
    of_kind = refusal({}, metadata={"at": ("file.name", "STRING")}, partitions=["at"])

    assert isinstance(of_type, DefinitionError)
    assert "TIMESTAMP_LTZ(3)" in of_type.message
    assert "not a physical column" in of_kind.message


@pytest.mark.parametrize(
    ("key", "kind", "part"),
    [
        ("file.nam", "STRING", "which 'filesystem' does not have"),
        ("file.name", "INT", "is not cast to it"),
        ("file.modification-time", "BIGINT", "is not cast to it"),
    ],
)
def test_metadata_has_flinks_names_and_types(key: str, kind: str, part: str) -> None:
    """Others are refused, with what would do."""
    error = refusal({}, metadata={"m": (key, kind)})

    assert part in error.message
    assert error.hint


def test_relative_paths_are_the_projects() -> None:
    """The registry gives the connector its project."""
    source = connector_of(file_table("in/./orders"), project=Path("/project")).source(
        file_table("in/./orders")
    )

    assert source.table.settings.location.text == "/project/in/orders"  # type: ignore[union-attr]


def test_a_source_travels_to_tasks() -> None:
    """It is pickled into every task."""
    source = file_source("/data", {"source.path.regex-pattern": ".*"}, columns={"id": "BIGINT"})
    copy = pickle.loads(pickle.dumps(source))

    assert copy.table.settings == source.table.settings
    assert copy.table.schema == source.table.schema


@pytest.mark.slow
def test_checking_and_planning_know_no_engine() -> None:
    """Neither Spark nor a Kafka client is imported."""
    code = (
        "import sys; import penstock.connector.filesystem.connector as c, "
        "penstock.connector.filesystem.source.metadata_client, penstock.connector.filesystem.source.reader; "
        "print(sorted({'pyspark', 'confluent_kafka'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert run.stdout.strip() == "[]"


def test_the_enumerator_assigns_on_request(tmp_path: Path) -> None:
    """Flink's static and continuous file enumerators, by the interval."""
    static, monitored = (
        file_source(tmp_path, options) for options in ({}, {"source.monitor-interval": "1 s"})
    )
    intervals = [s.enumerator(planning(s)).keywords["interval_ms"] for s in (static, monitored)]  # type: ignore[attr-defined]

    assert intervals == [None, 1000]
