"""What a scrape gives of running jobs, read as Prometheus reads it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.catalog.errors import BadRecordError, RecordFault
from penstock.connector.commits import CommitLog, OffsetCommits, SinkCommit
from penstock.connector.options.bad_records import BadRecordPolicy
from penstock.connector.options.watermark import OnFuture
from penstock.connector.source.state import MAX_WATERMARK_MS
from penstock.sql.jobs.batch_counters import LeftOutRecords
from penstock.sql.metrics.collector import PipelineCollector
from penstock.sql.observation.batch_metrics import OperatorMetrics
from penstock.sql.observation.pipeline import JobStatus, PipelineTraits, ResultMode
from tests.sql.metrics.metered import NOON_MS, SPLITS, job, read_batch, source_of, split
from tests.sql.run.scripted import MovedClock


def scraped(*jobs):
    """The series of a scrape: their values by name and labels, table and split first."""
    registry = CollectorRegistry()
    clock = MovedClock()
    clock.now = NOON_MS + 60_000
    registry.register(PipelineCollector(lambda: jobs, clock))
    text = generate_latest(registry).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("pipeline") == "shop/totals"
            ordered = [labels.pop(name) for name in ("table", "split") if name in labels]
            found[sample.name.removeprefix("penstock_"), *ordered, *labels.values()] = sample.value
    return found


def test_a_pipeline_tells_how_it_computes_and_what_its_sink_promises():
    """What is not known before the first start has an empty label, which Prometheus takes for none."""
    keyed = PipelineTraits(mode=ResultMode.KEYED, guarantee="exactly-once")

    assert info(job(traits=keyed)) == ("exactly-once", "keyed", "totals", version("penstock"))
    assert info(job()) == ("", "", "totals", version("penstock"))


def info(each):
    """The values of the labels of the one series of `penstock_pipeline_info`, by their names."""
    ((_, *labels),) = [key for key in scraped(each) if key[0] == "pipeline_info"]
    return tuple(labels)


def test_restarts_are_by_the_code_of_their_error():
    """Those of errors after which a pipeline starts again are there from 0 on: PromQL counts from the first value."""
    found = scraped(job(restart_reasons={"PEN-8003": 1, "PEN-4001": 2}))

    restarts = {key[1]: value for key, value in found.items() if "restarts" in key[0]}
    before = {key[1]: value for key, value in scraped(job()).items() if "restarts" in key[0]}
    assert before == {"PEN-6002": 0, "PEN-8000": 0, "PEN-8002": 0, "PEN-8003": 0}
    assert restarts == before | {"PEN-8003": 1, "PEN-4001": 2}


def test_counters_and_lag_are_by_table():
    """Two batches of one table; the paused split is ten records behind, the idle one sixty."""
    found = scraped(job(read_batch(6, source_of(*SPLITS)), read_batch(7, source_of(*SPLITS))))

    assert found["rows_read_total", "orders"] == 60
    assert found["rows_written_total", "totals"] == 40
    assert found["rows_late_total", "orders"] == 4
    assert found["records_lost_total", "orders"] == 0
    assert found["batches_total",] == 2
    assert (found["lag_records", "orders"], found["lag_records_max", "orders"]) == (70, 60)
    assert found["watermark_timestamp_seconds", "orders"] == (NOON_MS - 60_000) / 1000
    assert found["last_commit_timestamp_seconds",] == NOON_MS / 1000 + 5


def test_records_that_were_lost_are_by_table():
    """Of two batches of two tables."""
    lossy = replace(source_of(*SPLITS), records_lost=5)
    batches = (read_batch(n, source_of(*SPLITS), lossy) for n in (6, 7))
    found = scraped(job(*batches, sources=("orders", "customers")))

    assert found["records_lost_total", "orders"] == 0
    assert found["records_lost_total", "customers"] == 10


def test_files_are_of_keyed_operators_alone():
    """Spark's own have none that are counted."""
    kept = [
        OperatorMetrics(name=name, rows=1, size_bytes=2, commit_ms=0, most_files=files)
        for name, files in (("group_1 feed_0", 17), ("stateStoreSave", None))
    ]
    found = scraped(job(read_batch(7, operators=tuple(kept))))

    assert found["state_files", "group_1 feed_0 0"] == 17
    assert [key for key in found if key[0] == "state_files"] == [
        ("state_files", "group_1 feed_0 0")
    ]


def test_splits_are_counted_by_state_and_the_lowest_active_one_holds_the_watermark():
    """An idle split holds nothing, however low its watermark is."""
    found = scraped(job(read_batch(7, source_of(*SPLITS))))

    states = {key[2]: value for key, value in found.items() if key[0] == "splits"}
    assert states == {"reading": 0, "caught_up": 1, "idle": 1, "paused": 1, "finished": 0}
    holds = {key[2]: value for key, value in found.items() if key[0] == "split_holds_watermark"}
    assert holds == {"orders-0": 0, "orders-1": 1, "orders-2": 0}
    assert found["watermark_spread_seconds", "orders"] == 60
    assert found["split_state", "orders", "orders-0", "paused"] == 1


def test_durations_fill_cumulative_buckets_and_phases_are_seconds():
    """Half a second is within the bound 0.5."""
    found = scraped(job(read_batch(7, source_of(*SPLITS))))

    assert found["batch_duration_seconds_bucket", "0.25"] == 0
    assert found["batch_duration_seconds_bucket", "0.5"] == 1
    assert found["batch_duration_seconds_bucket", "+Inf"] == 1
    assert found["batch_duration_seconds_sum",] == 0.5
    assert found["batch_phase_seconds_total", "add_batch"] == 0.3


def test_a_table_of_more_splits_than_the_limit_has_its_sums_only():
    """At the limit each split has series."""
    batch = read_batch(7, source_of(*SPLITS))
    over, within = scraped(job(batch, split_limit=2)), scraped(job(batch, split_limit=3))

    assert not [key for key in over if key[0].startswith("split_")]
    assert ("split_position", "orders", "orders-0") in within
    assert over["lag_records", "orders"] == 70


def test_what_is_not_known_has_no_series():
    """No watermark, no commit, a table read to its end, and sources that do not answer."""
    none = scraped(job())
    ended = source_of(split(0, 100, MAX_WATERMARK_MS, stop=100))
    last = scraped(job(read_batch(7, ended, watermark_ms=MAX_WATERMARK_MS), lag_known=False))

    assert ("last_commit_timestamp_seconds",) not in none
    assert none["batches_total",] == 0
    assert not [
        key for key in last if key[0] in {"lag_records", "written_watermark_timestamp_seconds"}
    ]
    assert not [key for key in last if key[0] == "split_watermark_timestamp_seconds"]


def test_series_end_with_their_pipeline_but_the_status_of_a_failed_one_stays():
    """An alert needs the failure; nothing else of an ended job is exported."""
    batch = read_batch(7, source_of(*SPLITS))

    assert scraped(job(batch, status=JobStatus.STOPPED)) == {}
    assert scraped(job(batch, status=JobStatus.FINISHED)) == {}
    failed = scraped(job(batch, status=JobStatus.FAILED))
    assert {key[0] for key in failed} == {"pipeline_info", "pipeline_status"}
    assert failed["pipeline_status", "failed"] == 1


def test_the_record_that_ends_a_pipeline_is_counted_and_is_0_before():
    """Of the tables that may fail by such a record, as its error names none; those that skip theirs cannot."""
    batch = read_batch(7, source_of(*SPLITS), source_of(*SPLITS), source_of(*SPLITS))
    fails, skips = LeftOutRecords(), LeftOutRecords(undecodable=BadRecordPolicy.SKIP)
    tables: dict[str, object] = {
        "sources": ("orders", "customers", "items"),
        "left_out": (fails, skips, fails),
    }
    undecodable = failing(job(batch, **tables, status=JobStatus.FAILED, error=BadRecordError("")))
    of_the_future = BadRecordError("", fault=RecordFault.FUTURE)
    future = failing(job(batch, **tables, status=JobStatus.FAILED, error=of_the_future))

    both, all_three = ("orders, items", "undecodable"), ("orders, customers, items", "future")
    assert failing(job(batch, **tables)) == {both: 0, all_three: 0}
    assert undecodable == {both: 1, all_three: 0}
    assert future == {both: 0, all_three: 1}
    skipped = {"left_out": (skips,), "status": JobStatus.FAILED, "error": BadRecordError("")}
    assert failing(job(batch, **skipped))["orders", "undecodable"] == 1  # too many of them


def failing(each):
    """The records that failed a pipeline, by table and kind."""
    found = scraped(each)
    return {
        (key[1], key[3]): value
        for key, value in found.items()
        if key[0] == "bad_records_total" and key[2] == "failed"
    }


def test_the_drift_of_a_table_is_how_far_it_is_ahead_of_its_group():
    """The limit is the lowest watermark of the group and what it allows; a table of no group has neither figure."""
    found = scraped(job(read_batch(7, source_of(*SPLITS)), alignments=(("g", 90_000),)))

    assert found["alignment_drift_seconds", "orders", "g"] == 60
    assert found["alignment_max_drift_seconds", "orders", "g"] == 90
    assert not [key for key in scraped(job(read_batch(7, source_of()))) if "alignment" in key[0]]


def test_what_splits_have_waited_is_added_up_to_the_scrape():
    """Of the split that is paused, of the idle one, and of none for what it did not do."""
    first = read_batch(6, source_of(*SPLITS), committed_at_ms=NOON_MS)
    found = scraped(job(first, read_batch(7, source_of(*SPLITS), committed_at_ms=NOON_MS + 30_000)))

    assert found["split_paused_seconds_total", "orders", "orders-0"] == 60
    assert found["split_idle_seconds_total", "orders", "orders-2"] == 60
    assert found["split_paused_seconds_total", "orders", "orders-1"] == 0


def test_unread_records_have_the_time_at_which_they_were_seen_first():
    """Of a table that is read to its end there is none."""
    batch = read_batch(7, source_of(*SPLITS), committed_at_ms=NOON_MS)
    read = read_batch(7, source_of(split(1, 100, NOON_MS)))

    assert scraped(job(batch))["oldest_unread_timestamp_seconds", "orders"] == NOON_MS / 1000 - 0.5
    assert ("oldest_unread_timestamp_seconds", "orders") not in scraped(job(read))


def test_commits_are_those_that_sinks_report():
    """Of the only sink under its own name; what was not reported has no series."""
    commits = CommitLog()
    commits.add(SinkCommit(version=4, files=2, took_s=0.07))
    commits.add(SinkCommit(version=5, files=1, took_s=0.2))
    with commits.transactions("topic", 3):
        before = scraped(job(read_batch(7, source_of(*SPLITS)), commits=commits))
    with suppress(OSError), commits.transactions("topic", 2):
        raise OSError
    commits.add(SinkCommit(dead_letters={"orders": 7}))
    found = scraped(job(read_batch(7, source_of(*SPLITS)), commits=commits))

    assert found["delta_version", "totals"] == 5
    assert found["delta_files_added_total", "totals"] == 3
    assert found["sink_commit_seconds_bucket", "totals", "0.1"] == 1
    assert found["sink_commit_seconds_count", "totals"] == 2
    assert before["kafka_transactions_total", "topic", "ok"] == 0
    assert before["kafka_transactions_total", "topic", "failed"] == 0
    assert found["kafka_transactions_total", "topic", "ok"] == 3
    assert found["kafka_transactions_total", "topic", "failed"] == 2
    assert not [key for key in found if key[:2] == ("kafka_transactions_total", "totals")]
    assert found["dead_letters_total", "orders"] == 7
    assert ("delta_version", "topic") not in found
    assert not [key for key in scraped(job(read_batch(7))) if key[0].startswith("delta_")]


def test_a_lease_tells_until_when_it_holds():
    """An alert fires before the pipeline stops."""
    assert scraped(job())["lease_expires_timestamp_seconds",] == NOON_MS / 1000 + 20


def test_bad_records_are_by_table_and_those_of_no_known_table_are_not_lost():
    """Three of `orders`, two more that the event gives no table for; of late rows, those that it may be are named."""
    sources = (source_of(*SPLITS, bad_records=3), source_of(*SPLITS))
    batch = read_batch(7, *sources, bad_records=5, rows_dropped=4)

    found = scraped(job(batch, sources=("orders", "customers")))

    assert found["bad_records_total", "orders", "skipped", "undecodable"] == 3
    assert found["bad_records_total", "customers", "skipped", "undecodable"] == 0
    assert found["bad_records_total", "orders, customers", "", ""] == 2
    assert found["rows_late_total", "orders, customers"] == 4


def test_records_of_the_future_are_apart_and_what_becomes_of_both_is_told():
    """By the options of the table: these are kept, those that cannot be decoded are not."""
    source = replace(source_of(*SPLITS, bad_records=5), future_records=2)
    kept = LeftOutRecords(undecodable=BadRecordPolicy.SKIP, future=OnFuture.DEAD_LETTER)

    found = scraped(job(read_batch(7, source), left_out=(kept,)))

    bad = {key[1:]: value for key, value in found.items() if key[0] == "bad_records_total"}
    assert bad == {
        ("orders", "skipped", "undecodable"): 3,
        ("orders", "dead_letter", "future"): 2,
    }


def test_commits_of_offsets_are_by_how_they_ended():
    """A table without a consumer group has no series."""
    commits = {0: OffsetCommits(ok=7, skipped=1)}
    found = scraped(job(read_batch(7, source_of(*SPLITS)), offset_commits=commits))

    ended = {key[1:]: value for key, value in found.items() if "offset_commits" in key[0]}
    assert ended == {("orders", "ok"): 7, ("orders", "failed"): 0, ("orders", "skipped"): 1}
    assert not [key for key in scraped(job(read_batch(7))) if "offset_commits" in key[0]]


def test_a_running_batch_shows_for_how_long():
    """No event comes while a batch hangs; the clock tells."""
    batch = read_batch(7, source_of(*SPLITS))

    assert scraped(job(batch, running_since_ms=NOON_MS))["batch_running_seconds",] == 60
    assert scraped(job(batch))["batch_running_seconds",] == 0


def test_a_table_that_is_read_twice_has_two_labels():
    """A self-join reads it at two speeds."""
    sources = (source_of(*SPLITS, rows_in=30), source_of(*SPLITS, rows_in=5))
    found = scraped(job(read_batch(7, *sources), sources=("orders", "orders")))

    assert found["rows_read_total", "orders"] == 30
    assert found["rows_read_total", "orders#2"] == 5
