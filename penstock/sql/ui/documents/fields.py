"""The JSON documents of the API, version 1: the fields of each, and the functions that pipelines share.

A field that is not known is left out: it is neither null nor 0. Times are ISO 8601 in UTC, counts are integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penstock.connector.source.state import MAX_WATERMARK_MS, SourceState, instant_text
from penstock.sql.observation.batch_metrics import SourceMetrics
from penstock.sql.observation.split_states import SplitPhase, holders, phase_of

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """The type of a field as JSON Schema has it; `items` is the document in an array.

    `texts` is an array of strings, `numbers` one of numbers, `rows` one of arrays of strings.
    """

    name: str
    type: str
    meaning: str
    items: str | None = None


def _text(name: str, meaning: str) -> FieldType:
    return FieldType(name=name, type="string", meaning=meaning)


def _count(name: str, meaning: str) -> FieldType:
    return FieldType(name=name, type="integer", meaning=meaning)


def _time(name: str, meaning: str) -> FieldType:
    return FieldType(name=name, type="date-time", meaning=meaning)


def _list(name: str, items: str, meaning: str) -> FieldType:
    return FieldType(name=name, type="array", meaning=meaning, items=items)


def _numbers(name: str, meaning: str) -> FieldType:
    return FieldType(name=name, type="numbers", meaning=meaning)


def _texts(name: str, meaning: str) -> FieldType:
    return FieldType(name=name, type="texts", meaning=meaning)


_PIPELINE = (
    _text("name", "pipeline.name and the table written, as in the checkpoint's path"),
    _text(
        "status",
        "running, restarting, finished, stopped or failed; not known by a checkpoint alone",
    ),
    _text("reason", "the last error, or what the pipeline waits for"),
    _text("sentence", "what it does, or why nothing comes out, and what to change"),
    _text("sink", "the table written"),
    _text("guarantee", "what its sink promises, of one that runs here"),
    _text("runner", "where it runs: `here`, or the process that holds its lease"),
    _text("checkpoint", "the checkpoint directory"),
    _time("started", "when its process started it"),
    _count("batches", "batches committed since then"),
    _count("batch_id", "the last batch"),
    _count("rows_in", "rows read since the start"),
    _count("rows_out", "rows passed to the sink since the start"),
    _count("rows_late", "rows left out as they were behind the watermark"),
    _count("bad_records", "records left out as they could not be decoded"),
    _count("records_lost", "records deleted before they were read, passed over as the table says"),
    FieldType(name="rows_per_second", type="number", meaning="rows read over the last seconds"),
    FieldType(
        name="rows_per_second_out",
        type="number",
        meaning="rows passed to the sink over the last seconds",
    ),
    _time("watermark", "the watermark of the last batch, of all tables"),
    _count("lag_records", "records that are not read yet"),
    _time(
        "oldest_unread",
        "when the oldest record that is not read yet was first seen; not there where all is read",
    ),
    _numbers(
        "rows_per_second_trend",
        "rows read per second over the last 15 minutes, a value for each half minute that is over",
    ),
    _numbers("lag_records_trend", "the same of the records that are not read yet"),
    _time("last_commit", "when the last batch was committed"),
    _count("restarts", "restarts after a failure"),
    _count(
        "restarts_counted",
        "those of them that count against `restart_limit`: by exponential-delay those in a row",
    ),
    _count("restart_limit", "how many of these there may be before it fails for good"),
)

_TABLE = (
    _text("name", "the full name"),
    _text("kind", "TABLE or VIEW"),
    _text("connector", "the connector"),
    _text("group", "its alignment group"),
    _text("comment", "its comment"),
)

_FLOWS = (
    _list("readers", "TableFlow", "the queries that read it: of views, and of the project's files"),
    _list("writers", "TableFlow", "the queries that fill it"),
)

SCHEMAS: Mapping[str, tuple[FieldType, ...]] = {
    "PipelineSummary": _PIPELINE,
    "Pipeline": (
        *_PIPELINE,
        _list("tables", "SourceTable", "the tables read"),
        _list("batches_recent", "Batch", "the last batches, oldest first"),
        _list("operators", "Operator", "the plan from its result down to the tables read"),
        _list("sinks", "Sink", "the tables written"),
        _list("errors", "PipelineError", "its last failures, at most 20, newest first"),
    ),
    "PipelineError": (
        _time("at", "when it failed"),
        _text("code", "the code of the error, not there of a process that ended"),
        _text("message", "what it failed of"),
    ),
    "SourceTable": (
        _text("name", "the table"),
        _text("connector", "its connector"),
        _text("group", "its alignment group"),
        _time("watermark", "its watermark"),
        _time("limit", "the highest watermark that its alignment group allows"),
        _count("lag_records", "records that are not read yet"),
        _list("splits", "Split", "its splits as of the last batch"),
    ),
    "Split": (
        _text("id", "the split: of Kafka, topic and partition"),
        _text(
            "state",
            "reading, caught_up, idle, paused or finished; stopped of a pipeline that does not run",
        ),
        _count("position", "the next position to read"),
        _count("end", "its end as of the last batch"),
        _count("lag_records", "records that are not read yet"),
        _time("watermark", "its watermark"),
        FieldType(name="holds", type="boolean", meaning="whether it holds the table's watermark"),
        _text("why", "why it is paused, or was when its pipeline ended"),
        _time("since", "since when it has had no records"),
    ),
    "Batch": (
        _count("id", "the batch"),
        _time("committed", "when it was committed"),
        _count("duration_ms", "how long it took"),
        _count("rows_in", "rows read"),
        _count("rows_out", "rows passed to the sink"),
        _time("watermark", "the watermark with it"),
        FieldType(name="phases_ms", type="object", meaning="milliseconds of each phase"),
    ),
    "Operator": (
        _text("name", "the operator, as EXPLAIN has it"),
        _count("level", "steps below the result; its inputs follow one step further"),
        _text("mechanism", "what runs it: reading tasks, a keyed operator, Spark"),
        _texts("key", "by what it keeps its state"),
        _text("keeps", "what its state is"),
        _text("bound", "what bounds its state, `none` where nothing does"),
        _count("rows", "rows that it keeps; of a keyed operator those of its files"),
        _count("bytes", "what they take: memory, of stages their files"),
    ),
    "Sink": (
        _text("name", "the table"),
        _text("writer", "what writes its rows: reading tasks or Spark"),
        _text("guarantee", "what a batch that is run again does to it"),
        _time("watermark", "results up to there are written"),
        _count("commits", "commits of its process, where Penstock commits itself"),
        _count("commit_ms", "how long they took in all, without writing rows"),
        _count(
            "version", "the version of the Delta table: after the last commit of a process, or now"
        ),
        _count("files", "files that commits of its process added"),
        _count("transactions", "transactions of its process in Kafka"),
    ),
    "TableSummary": (*_TABLE, *_FLOWS),
    "Table": (
        *_TABLE,
        _text("definition", "its CREATE statement, values of secret options left out"),
        _list(
            "options", "TableOption", "the options that hold for it, values of secret ones left out"
        ),
        *_FLOWS,
        _list("lineage", "TableFlow", "all queries before and behind it"),
        _texts("lineage_notes", "files and views that could not be read for it, and why"),
    ),
    "PipelineLineage": (
        _texts("written", "the full names of the tables that the pipeline writes"),
        _list(
            "flows",
            "TableFlow",
            "the queries before and behind these, its own among them; as of some seconds before",
        ),
    ),
    "TableOption": (
        _text("key", "the option"),
        _text("value", "its value"),
        _text("origin", "`table` for one of its WITH, `default` for the connector's"),
        _text("meaning", "what it is"),
    ),
    "FirstRows": (
        _texts("columns", "the columns, in the order of the table"),
        FieldType(name="rows", type="rows", meaning="a list of texts for each row, null for NULL"),
        _text("end", "whether these are all"),
        _texts("left_out", "columns that only Spark computes"),
        _count("skipped", "records that were left out, as they are bad or empty"),
        _text("problem", "why they cannot be read here"),
        _text("hint", "how they can be read"),
    ),
    "Settings": (
        _text("project", "the folder of the project"),
        _text("target", "the target of penstock.toml"),
        _text("catalog", "the URL of the catalog, its password left out"),
        _text("master", "Spark's master, where the project has one"),
        _list("settings", "Setting", "those that files begin with; SET in a file goes before"),
        _list("spark", "Setting", "Spark's settings of the project"),
    ),
    "Setting": (
        _text("key", "the setting"),
        _text("value", "its value, left out where it is secret"),
        _text("origin", "the project's file, or `default`"),
        _text("meaning", "what it is"),
    ),
    "Doctor": (
        _time("examined", "when the machine was examined last"),
        FieldType(name="running", type="boolean", meaning="whether it is being examined now"),
        _list("findings", "Finding", "what `penstock doctor` says there"),
    ),
    "Finding": (
        _text("check", "what was looked at"),
        _text("level", "ok, warning or failure"),
        _text("text", "what was found"),
        _text("hint", "what to do"),
    ),
    "TableFlow": (
        _text("source", "the object that is read"),
        _text("target", "the object that is filled"),
        _text("by", "VIEW, MATERIALIZED TABLE or INSERT"),
        _text("position", "file and line of the statement"),
    ),
    "DeadLetters": (
        _list("reasons", "DeadLetterReason", "how many, by table, pipeline and reason"),
        _list("newest", "DeadLetter", "the newest 20, newest first"),
        _text("elsewhere", "why none can be shown here, and the command that shows them"),
    ),
    "DeadLetterReason": (
        _text("table", "the table they were read for"),
        _text("pipeline", "the query that left them out"),
        _text("stage", "where it did: decoding, or a rule"),
        _text("reason", "the kind of error"),
        _count("letters", "how many"),
        _count("replayed", "how many of them were given back to Kafka"),
        _text("replay", "the command that gives the others back"),
    ),
    "DeadLetter": (
        _text("table", "the table it was read for"),
        _text("pipeline", "the query that left it out"),
        _text("position", "its topic, partition and offset, or its file and byte"),
        _time("timestamp", "the record's own time"),
        _time("left_out", "when it was left out"),
        _text("stage", "where"),
        _text("error", "why"),
        _text("key", "the record's key, as text"),
        _text("value", "the record's value, as text; its first 2,000 characters"),
        FieldType(name="replayed", type="boolean", meaning="whether it was given back to Kafka"),
    ),
    "Error": (_text("error", "what is wrong"),),
}
"""The fields of each document."""

VERSION_PATH = "/api/v1"


def known(**fields: Any) -> Document:
    """Return the fields that are not None. Half a character of UTF-16, which JSON may hold, is written out in texts."""
    return {
        name: writable(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }


def writable(text: str) -> str:
    """Return a text as it can be written in UTF-8: names of files, too, may hold what cannot."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


@lru_cache(maxsize=4_096)
def time_text(at_ms: int | None) -> str | None:
    """Write a time (epoch ms); None for one that is not known, and for the watermark of a table read to its end."""
    return None if at_ms is None or at_ms >= MAX_WATERMARK_MS else instant_text(at_ms)


def table_document(
    name: str,
    source: SourceMetrics,
    *,
    ends_known: bool,
    runs: bool | None,
    connector: str | None = None,
    group: str | None = None,
) -> Document:
    """Describe a table that is read, with its splits in the order of their ids, and its alignment group.

    `ends_known` False: only positions are, and with them neither ends nor lags. `runs` tells whether the pipeline does;
    None where that is not known.
    """
    state = source.state
    table = known(name=name, connector=connector, group=group)
    if state is None:
        return table
    return table | known(
        watermark=time_text(state.watermark_ms),
        limit=time_text(state.limit_ms),
        lag_records=sum(source.lags) if ends_known else None,
        splits=_splits(state, source.lags, ends_known=ends_known, runs=runs),
    )


def _splits(
    state: SourceState, lags: Sequence[int], *, ends_known: bool, runs: bool | None
) -> list[Document]:
    held = holders(state)
    return [
        known(
            id=split.split_id,
            state=_state(phase_of(split, lag), ends_known=ends_known, runs=runs),
            position=split.end,
            end=split.end + lag if ends_known else None,
            lag_records=lag if ends_known else None,
            watermark=time_text(split.watermark_ms),
            holds=split.split_id in held,
            why=split.paused if runs or split.paused is None else f"{_PAUSED} {split.paused}",
            since=time_text(split.quiet_since_ms),
        )
        for split, lag in sorted(zip(state.splits, lags, strict=True), key=lambda s: s[0].split_id)
    ]


_STOPPED = "stopped"
"""The state of a split that nothing reads, though its end is not reached."""

_PAUSED = "paused with the last batch:"


def _state(phase: SplitPhase, *, ends_known: bool, runs: bool | None) -> str | None:
    """Name a state; None where only the end of the split, or whether the pipeline runs, would tell."""
    if runs is False and phase is not SplitPhase.FINISHED:
        return _STOPPED
    if runs is None and phase is SplitPhase.PAUSED:
        return None
    by_end = {SplitPhase.READING, SplitPhase.CAUGHT_UP}
    return None if phase in by_end and not ends_known else phase.value
