"""The sentence of a pipeline: what it does, or why nothing comes out of it, and what to change.

A pure function of an observation and the clock. Its rules are asked in order, and the first that holds answers: a split
that is far behind, and rows that are all late, go before rows that wait for the watermark, which they explain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from penstock.connector.options.watermark import IDLE_TIMEOUT, MAX_FUTURE
from penstock.connector.source.state import (
    MAX_WATERMARK_MS,
    SourceState,
    SplitState,
    instant_text,
)
from penstock.sql.clock import duration_text
from penstock.sql.observation.batch_metrics import BatchMetrics, SourceMetrics
from penstock.sql.observation.pipeline import JobStatus, PipelineObservation
from penstock.sql.observation.split_states import holders

LONG_BATCHES = 10
"""A batch is long that takes so many times the median of the last ones."""

LONG_BATCH_MS = 10_000
"""No batch is long before."""

FAR_BEHIND_MS = 600_000
"""A split holds the watermark back that is further behind the next one than this."""

LEAST_SILENCE_MS = 10_000
"""For how long a split is silent before that is said."""

RECENT = 20
"""The batches with rows that rules about the result look at."""

TREND_MS, LEAST_TREND_MS = 900_000, 60_000
"""The time over which a lag has to grow, and what is enough where less is known."""


class SentenceRule(StrEnum):
    """The rules, in their order."""

    FAILED = "failed"
    RESTARTING = "restarting"
    ENDED = "ended"
    OUTAGE = "outage"
    LONG_BATCH = "long-batch"
    SPLIT_BEHIND = "split-behind"
    NO_WATERMARK = "no-watermark"
    PAUSED = "paused"
    ALL_LATE = "all-late"
    WAITING_ROWS = "waiting-rows"
    NEVER_READ = "never-read"
    NO_OUTPUT = "no-output"
    FALLS_BEHIND = "falls-behind"
    READING = "reading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """What a pipeline does. `advice` is what to change, empty where there is nothing."""

    rule: SentenceRule
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.text}; {self.advice}" if self.advice else self.text


def sentence_of(seen: PipelineObservation, now_ms: int) -> Sentence:
    """Return the sentence of the first rule that holds."""
    for rule, say in _RULES:
        if (said := say(seen, now_ms)) is not None:
            text, advice = said
            return Sentence(rule=rule, text=text, advice=advice)
    return Sentence(rule=SentenceRule.READING, text=_reading(seen))


_Said = tuple[str, str] | None


# --- the status ---


def _failed(seen: PipelineObservation, _: int) -> _Said:
    if seen.status is not JobStatus.FAILED:
        return None
    return f"failed: {_first_line(seen.error)}" if seen.error else "failed", ""


def _restarting(seen: PipelineObservation, _: int) -> _Said:
    if seen.status is not JobStatus.RESTARTING:
        return None
    error = f" after: {_first_line(seen.error)}" if seen.error else ""
    return f"restarts{_times(seen.restarts)}{error}", ""


def _ended(seen: PipelineObservation, now_ms: int) -> _Said:
    if not seen.status.final:
        return None
    batch = "" if seen.batch_id is None else f" after batch {seen.batch_id}"
    ago = "" if seen.last_commit_ms is None else f", {_whole(now_ms - seen.last_commit_ms)} ago"
    return f"{seen.status.value}{batch}{ago}", ""


def _outage(seen: PipelineObservation, _: int) -> _Said:
    return None if seen.outage is None else (f"waits for {seen.outage}", "")


def _long_batch(seen: PipelineObservation, now_ms: int) -> _Said:
    if seen.running_since_ms is None or not seen.batches:
        return None
    runs_ms = now_ms - seen.running_since_ms
    usual_ms = round(median(batch.duration_ms for batch in seen.batches))
    if runs_ms <= max(LONG_BATCHES * usual_ms, LONG_BATCH_MS):
        return None
    number = seen.batches[-1].batch_id + 1
    usual = f"median {duration_text(usual_ms)}"
    return f"batch {number} runs for {_whole(runs_ms)} ({usual})", ""


# --- the watermark ---


def _split_behind(seen: PipelineObservation, now_ms: int) -> _Said:
    for source, state in _states(seen):
        timed = sorted(
            ((at_ms, split) for split in _active(state) if (at_ms := _time_of(split)) is not None),
            key=lambda found: (found[0], found[1].split_id),
        )
        if len(timed) < 2 or timed[1][0] - timed[0][0] <= FAR_BEHIND_MS:
            continue
        at_ms, split = timed[0]
        behind = f"{_whole(timed[1][0] - at_ms)} behind the next"
        holds = f"waits: split {split.split_id} holds the watermark at {_instant(at_ms)}, {behind}"
        return _with_lag(holds, split, source, seen, now_ms)
    return None


def _no_watermark(seen: PipelineObservation, now_ms: int) -> _Said:
    for source, state in _states(seen):
        timeless = [
            split
            for split in _active(state)
            if split.watermark_ms is None and split.split_id in holders(state)
        ]
        if timeless:
            names = _names([split.split_id for split in timeless])
            holds = f"waits: {names} had no record with a time, and the watermark waits for it"
            return _with_lag(holds, timeless[0], source, seen, now_ms)
    return None


def _with_lag(
    text: str, split: SplitState, source: SourceMetrics, seen: PipelineObservation, now_ms: int
) -> tuple[str, str]:
    """Add whether a split has records, and what lets the others go on where it has none."""
    lag = source.lag_of(split)
    if seen.ends_known and lag:
        return f"{text}; {lag:,} of its records are not read yet", ""
    since_ms = split.quiet_since_ms
    if since_ms is None and seen.ends_known:
        since_ms = seen.last_commit_ms  # a record after that would be a batch
    silent_ms = 0 if since_ms is None else now_ms - since_ms
    silent = f"silent for {_whole(silent_ms)}" if silent_ms >= LEAST_SILENCE_MS else ""
    caught_up = "caught up" if seen.ends_known else ""
    facts = ", ".join(filter(None, (caught_up, silent)))
    if not facts:
        return text, ""
    return f"{text}; {facts}", f"set {IDLE_TIMEOUT.key}"


def _paused(seen: PipelineObservation, _: int) -> _Said:
    for name, source in seen.sources:
        splits = () if source.state is None else source.state.splits
        paused = [split for split in splits if split.paused is not None]
        if paused:
            of = f"{len(paused)} of {len(splits)} splits of {name}"
            return f"waits: {of} are paused: {paused[0].paused}", ""
    return None


def _waiting_rows(seen: PipelineObservation, _: int) -> _Said:
    """Rows that no batch gave out, in the state of a query whose tables are all read."""
    recent = _with_rows(seen)
    if not seen.state.waits or not recent or any(batch.rows_out for batch in recent):
        return None
    watermarks = [state.watermark_ms for _, state in _states(seen)]
    known = [at_ms for at_ms in watermarks if at_ms is not None and at_ms < MAX_WATERMARK_MS]
    if not known or not seen.ends_known or _lag(seen):
        return None
    lowest = [state for _, state in _states(seen) if state.watermark_ms == min(known)]
    held = sorted({name for state in lowest for name in holders(state)})
    moves = f"; the next record that moves it must come on {_names(held)}" if held else ""
    waiting = seen.state.waiting
    waits = "waits" if waiting == 1 else "wait"
    count = _counted(waiting) if waiting else "rows"
    rows = f"{count} of its state {waits} for the watermark"
    return f"caught up: {rows}, which is at {_instant(min(known))}{moves}", ""


# --- the rows ---


def _never_read(seen: PipelineObservation, _: int) -> _Said:
    if len(seen.sources) < 2 or not seen.ends_known or not seen.batches:
        return None
    if any(
        batch.rows_out for batch in _with_rows(seen)
    ):  # of the other tables: it is no inner join
        return None
    for number, (name, source) in enumerate(seen.sources):
        state = source.state
        if state is None or seen.rows_read.get(number) or sum(source.lags):
            continue
        if all(split.watermark_ms is None for split in state.splits):
            return f"table {name} had no record since the start: a join with it gives nothing", ""
    return None


def _all_late(seen: PipelineObservation, _: int) -> _Said:
    recent = _with_rows(seen)
    late = sum(batch.rows_dropped for batch in recent)
    if not late or late < sum(batch.rows_in for batch in recent):
        return None
    if any(batch.rows_out for batch in recent):
        return None
    at_ms = recent[-1].watermark_ms
    ahead = "" if at_ms is None else f": the watermark, {_instant(at_ms)}, is ahead of them"
    advice = f"a record of the future moves it so far, which {MAX_FUTURE.key} prevents"
    return f"all {late:,} rows of the last {_batches(recent)} were late{ahead}", advice


def _no_output(seen: PipelineObservation, _: int) -> _Said:
    recent = _with_rows(seen)
    if not recent or any(batch.rows_out for batch in recent):
        return None
    rows, in_state = sum(batch.rows_in for batch in recent), seen.state.rows
    are = "is" if in_state == 1 else "are"
    state = f"; {_counted(in_state)} {are} in its state" if in_state else ""
    read = f"{_counted(rows)} of the last {_batches(recent)} {'is' if rows == 1 else 'are'} read"
    if seen.state.may_wait:  # it is not known which of both holds
        return (
            f"{read}, and none came out: the query let none through, or they wait in its state",
            "",
        )
    return f"{read}, and the query let none through{state}", ""


def _falls_behind(seen: PipelineObservation, _: int) -> _Said:
    if not seen.lags:
        return None
    last = seen.lags[-1]
    recent = [sample for sample in seen.lags if sample.at_ms >= last.at_ms - TREND_MS]
    first, middle = recent[0], recent[len(recent) // 2]
    took_ms = last.at_ms - first.at_ms
    if took_ms < LEAST_TREND_MS or not first.lag_records < middle.lag_records < last.lag_records:
        return None
    rows = (last.rows_in - first.rows_in) * 1000 // took_ms
    grew = f"from {first.lag_records:,} to {last.lag_records:,} records in {_whole(took_ms)}"
    slowest = _slowest(seen.batches[-RECENT:])
    return f"falls behind: the lag grew {grew}, at {rows:,} rows/s read{slowest}", ""


def _slowest(batches: Sequence[BatchMetrics]) -> str:
    """Name the phase that takes most of the batches."""
    total = sum(batch.duration_ms for batch in batches)
    sums: dict[str, int] = {}
    for batch in batches:
        for phase, took_ms in batch.phases_ms.items():
            sums[phase] = sums.get(phase, 0) + took_ms
    sums.pop("triggerExecution", None)  # the whole batch
    if not total or not sums:
        return ""
    phase = max(sums, key=lambda name: (sums[name], name))
    return f"; {phase} takes {min(100, sums[phase] * 100 // total)} % of a batch"


def _reading(seen: PipelineObservation) -> str:
    if seen.batch_id is None and not seen.batches:
        return "starts: no batch of this run is committed yet"
    if seen.batch_id is not None and not seen.batches and seen.running_since_ms is not None:
        return f"reads: batch {seen.batch_id + 1} is the first one of this run"
    if not seen.ends_known or not seen.sources:
        return f"runs: batch {seen.batch_id} is the last one"
    lag = _lag(seen)
    return f"reads: {lag:,} records behind" if lag else "caught up"


# --- parts ---


def _states(seen: PipelineObservation) -> list[tuple[SourceMetrics, SourceState]]:
    return [(source, source.state) for _, source in seen.sources if source.state is not None]


def _active(state: SourceState) -> Iterator[SplitState]:
    """Yield the splits that hold the watermark."""
    return (split for split in state.splits if not split.idle and not split.finished)


def _time_of(split: SplitState) -> int | None:
    """Return the watermark of a split; None where there is none, and where its end is reached."""
    at_ms = split.watermark_ms
    return None if at_ms is None or at_ms >= MAX_WATERMARK_MS else at_ms


def _lag(seen: PipelineObservation) -> int:
    return sum(sum(source.lags) for _, source in seen.sources)


def _with_rows(seen: PipelineObservation) -> list[BatchMetrics]:
    """Return the last batches that read rows."""
    return [batch for batch in seen.batches if batch.rows_in][-RECENT:]


def _names(split_ids: Sequence[str]) -> str:
    first = ", ".join(split_ids[:3])
    more = f" and {len(split_ids) - 3} more" if len(split_ids) > 3 else ""
    return f"{'split' if len(split_ids) == 1 else 'splits'} {first}{more}"


def _counted(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def _batches(batches: Sequence[BatchMetrics]) -> str:
    return "batch" if len(batches) == 1 else f"{len(batches)} batches"


def _times(restarts: int | None) -> str:
    return f" (restart {restarts})" if restarts else ""


def _whole(span_ms: int) -> str:
    """Write a span of time to the second, and of minutes to the minute: a page that shows it changes so often."""
    unit_ms = 1_000 if span_ms < 60_000 else 60_000
    return duration_text(max(span_ms, 0) // unit_ms * unit_ms).replace("0 ms", "0 s")


def _instant(at_ms: int) -> str:
    """Write a time to the second."""
    text = instant_text(at_ms).removesuffix("Z").partition(".")[0]
    return f"{text.replace('T', ' ')}Z"


def _first_line(error: str) -> str:
    return error.strip().partition("\n")[0]


_RULES: tuple[tuple[SentenceRule, Callable[[PipelineObservation, int], _Said]], ...] = (
    (SentenceRule.FAILED, _failed),
    (SentenceRule.RESTARTING, _restarting),
    (SentenceRule.ENDED, _ended),
    (SentenceRule.OUTAGE, _outage),
    (SentenceRule.LONG_BATCH, _long_batch),
    (SentenceRule.SPLIT_BEHIND, _split_behind),
    (SentenceRule.NO_WATERMARK, _no_watermark),
    (SentenceRule.PAUSED, _paused),
    (SentenceRule.ALL_LATE, _all_late),
    (SentenceRule.WAITING_ROWS, _waiting_rows),
    (SentenceRule.NEVER_READ, _never_read),
    (SentenceRule.NO_OUTPUT, _no_output),
    (SentenceRule.FALLS_BEHIND, _falls_behind),
)
