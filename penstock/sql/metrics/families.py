"""The metrics that are exported: name, type, unit, labels and meaning of each.

Names follow OpenMetrics: base units, `_total` for counters, times as timestamps (PromQL subtracts them from `time()`).
No label grows without bound: those of single splits are exported as far as `metrics.per-split` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MetricKind(Enum):
    """The type of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """A metric. `labels` come after `pipeline`, which all have; the exported name of a counter ends in `_total`."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def exported(self) -> str:
        """The name that rules and dashboards use; of a histogram, without its suffixes."""
        return f"{self.name}_total" if self.kind is MetricKind.COUNTER else self.name


def _gauge(name: str, meaning: str, *labels: str) -> MetricFamily:
    return MetricFamily(
        name=f"penstock_{name}", kind=MetricKind.GAUGE, meaning=meaning, labels=tuple(labels)
    )


def _counter(name: str, meaning: str, *labels: str) -> MetricFamily:
    return MetricFamily(
        name=f"penstock_{name}", kind=MetricKind.COUNTER, meaning=meaning, labels=tuple(labels)
    )


INFO = _gauge(
    "pipeline_info",
    "What the pipeline writes, how it computes that, what its sink promises, and the version that runs it.",
    "sink",
    "mode",
    "guarantee",
    "version",
)
STATUS = _gauge(
    "pipeline_status", "1 for the status that the pipeline has, 0 for the others.", "status"
)
STARTED = _gauge("pipeline_start_timestamp_seconds", "When this process started the pipeline.")
RESTARTS = _counter(
    "pipeline_restarts",
    "Restarts after a failure in this process, by the code of its error.",
    "reason",
)
WAITING = _gauge(
    "pipeline_waiting", "1 while a source does not answer and the pipeline waits for it."
)
BATCHES = _counter(
    "batches", "Batches committed in this process; of periodic refreshes, the refreshes."
)
DURATION = MetricFamily(
    name="penstock_batch_duration_seconds",
    kind=MetricKind.HISTOGRAM,
    meaning="How long batches took, from planning to commit.",
)
PHASES = _counter("batch_phase_seconds", "Time spent in each phase of batches.", "phase")
RUNNING = _gauge(
    "batch_running_seconds", "For how long the batch that runs now has run; 0 when none runs."
)
LAST_COMMIT = _gauge("last_commit_timestamp_seconds", "When the last batch was committed.")
ROWS_READ = _counter("rows_read", "Rows read from a table.", "table")
ROWS_WRITTEN = _counter("rows_written", "Rows passed to the sink.", "table")
ROWS_LATE = _counter(
    "rows_late",
    "Rows of a table left out as they were behind the watermark; of one of several, all are named.",
    "table",
)
BAD_RECORDS = _counter(
    "bad_records",
    "Records left out: `undecodable`, or of a time too far in the `future`; `skipped`, or kept as a `dead_letter`; "
    "`failed`: 1 of the record that ended the pipeline.",
    "table",
    "action",
    "kind",
)
RECORDS_LOST = _counter(
    "records_lost",
    "Offsets of a table that were deleted before they were read, where its options tolerate that.",
    "table",
)
OFFSET_COMMITS = _counter(
    "offset_commits",
    "Commits of offsets to the consumer group of a table; `skipped`: not sent, as the one before was under way.",
    "table",
    "result",
)
DEAD_LETTERS = _counter(
    "dead_letters", "Records of a table that were kept as dead letters.", "table"
)
SINK_COMMIT = MetricFamily(
    name="penstock_sink_commit_seconds",
    kind=MetricKind.HISTOGRAM,
    meaning="How long commits to the table took, without writing rows, where Penstock commits itself.",
    labels=("table",),
)
TABLE_VERSION = _gauge(
    "delta_version", "The version of the Delta table after the last commit.", "table"
)
FILES_ADDED = _counter("delta_files_added", "Files that commits added to the Delta table.", "table")
TRANSACTIONS = _counter(
    "kafka_transactions",
    "Transactions that were committed to topics, and those of batches whose write `failed`.",
    "table",
    "result",
)
WATERMARK = _gauge(
    "watermark_timestamp_seconds",
    "The watermark of a table that is read; absent while it has none, and when it is read to its end.",
    "table",
)
WRITTEN_WATERMARK = _gauge(
    "written_watermark_timestamp_seconds",
    "The watermark of the last committed batch: results up to there are in the sink.",
    "table",
)
LAG = _gauge("lag_records", "Records that are not read yet, over all splits.", "table")
LAG_MAX = _gauge(
    "lag_records_max", "Records that are not read yet, of the split with most.", "table"
)
OLDEST_UNREAD = _gauge(
    "oldest_unread_timestamp_seconds",
    "When the oldest record that is not read yet was first seen; absent where all is read.",
    "table",
)
SPLITS = _gauge("splits", "Number of splits in each state.", "table", "state")
SPREAD = _gauge(
    "watermark_spread_seconds",
    "From the lowest to the highest watermark of the splits that are not idle.",
    "table",
)
DRIFT = _gauge(
    "alignment_drift_seconds",
    "How far the table's watermark is ahead of the lowest one of its alignment group.",
    "table",
    "group",
)
MAX_DRIFT = _gauge(
    "alignment_max_drift_seconds", "The drift that the alignment group allows.", "table", "group"
)
LEASE = _gauge(
    "lease_expires_timestamp_seconds",
    "When the pipeline stops unless its lease is renewed in the catalog before.",
)
STATE_ROWS = _gauge(
    "state_rows",
    "Rows that a stateful operator keeps; absent where they are not counted: by RocksDB, by stages of `recomputed`.",
    "operator",
)
STATE_BYTES = _gauge(
    "state_bytes",
    "Memory that the state of such an operator takes; of a stage, its files.",
    "operator",
)
STATE_FILES = _gauge(
    "state_files",
    "Files of the bucket of a keyed operator that has most; merged from 16 on, by batches themselves from 64 on.",
    "operator",
)
STATE_COMMIT = _counter("state_commit_seconds", "Time that committing this state took.", "operator")
SPLIT_POSITION = _gauge("split_position", "The next position to read.", "table", "split")
SPLIT_END = _gauge("split_end", "The end of the split as of the last batch.", "table", "split")
SPLIT_LAG = _gauge(
    "split_lag_records", "Records of the split that are not read yet.", "table", "split"
)
SPLIT_WATERMARK = _gauge(
    "split_watermark_timestamp_seconds",
    "The watermark of the split; absent while it has none.",
    "table",
    "split",
)
SPLIT_STATE = _gauge(
    "split_state",
    "1 for the state that the split has, 0 for the others.",
    "table",
    "split",
    "state",
)
SPLIT_HOLDS = _gauge(
    "split_holds_watermark", "1 where no active split has a lower watermark.", "table", "split"
)

SPLIT_PAUSED = _counter(
    "split_paused_seconds", "Time that the alignment group held the split.", "table", "split"
)
SPLIT_IDLE = _counter(
    "split_idle_seconds", "Time that the split was idle, and held no watermark.", "table", "split"
)

FAMILIES = (
    INFO, STATUS, STARTED, RESTARTS, WAITING, BATCHES, DURATION, PHASES, RUNNING, LAST_COMMIT, ROWS_READ,
    ROWS_WRITTEN, ROWS_LATE, BAD_RECORDS, RECORDS_LOST, OFFSET_COMMITS, DEAD_LETTERS, SINK_COMMIT, TABLE_VERSION,
    FILES_ADDED, TRANSACTIONS, WATERMARK, WRITTEN_WATERMARK, LAG, LAG_MAX, OLDEST_UNREAD, SPLITS, SPREAD, DRIFT,
    MAX_DRIFT, LEASE, STATE_ROWS, STATE_BYTES, STATE_FILES, STATE_COMMIT, SPLIT_POSITION, SPLIT_END, SPLIT_LAG,
    SPLIT_WATERMARK, SPLIT_STATE, SPLIT_HOLDS, SPLIT_PAUSED, SPLIT_IDLE,
)  # fmt: skip
"""All metrics, in the order in which they are exported."""
