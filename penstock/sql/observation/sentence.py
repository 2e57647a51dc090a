"""The sentence of a pipeline: what it does, or why nothing comes out of it, and what to change.

A pure function of an observation and the clock. Its rules are asked in order, and the first that holds answers: a split
that is far behind, and rows that are all late, go before rows that wait for the watermark, which they explain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
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
"""Splits, or tables, hold the watermark back that are further behind the next one than this."""

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
    RECORDS_LOST = "records-lost"
    SPLIT_BEHIND = "split-behind"
    NO_WATERMARK = "no-watermark"
    PAUSED = "paused"
    TABLE_BEHIND = "table-behind"
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


def _records_lost(seen: PipelineObservation, now_ms: int) -> _Said:
    """Say for a while what was lost: such a table is no error, and its lag only falls."""
    recent = [batch for batch in seen.batches if batch.committed_at_ms > now_ms - TREND_MS]
    lost = sum(batch.records_lost for batch in recent)
    if not lost:
        return None
    numbers = {number for batch in recent for number in batch.lost_of}
    names = [name for number, (name, _) in enumerate(seen.sources) if number in numbers]
    records = f"{lost:,} record{'' if lost == 1 else 's'}"
    of = f" of {', '.join(names)}" if names else ""
    text = f"lost {records}{of} within {_whole(TREND_MS)}: deleted before they were read"
    return text, "keep records longer than the pipeline is behind"


# --- the watermark ---


def _split_behind(seen: PipelineObservation, now_ms: int) -> _Said:
    for source, state in _states(seen):
        timed = [
            (at_ms, split) for split in _active(state) if (at_ms := _time_of(split)) is not None
        ]
        timed.sort(key=lambda found: (found[0], found[1].split_id))
        for count, gap_ms in _gaps([at_ms for at_ms, _ in timed]):
            holding = _Held(splits=tuple((source, split) for _, split in timed[:count]))
            # of most of them it may be the others that are ahead, by a record of the future: these go on
            if 2 * count > len(timed) and not holding.stands_still(seen, now_ms):
                continue
            hold = f"{_names(holding.ids)} {'holds' if count == 1 else 'hold'}"
            behind = f"{_whole(gap_ms)} behind the next"
            return holding.with_lag(
                f"waits: {hold} the watermark at {_instant(timed[0][0])}, {behind}",
                seen,
                now_ms,
                several=count > 1,
            )
    return None


def _table_behind(seen: PipelineObservation, now_ms: int) -> _Said:
    """Tables that are behind the others: rows of a query over all of them wait for these in its state."""
    if seen.batches and not (seen.state.waits or seen.state.may_wait):
        return None
    if any(batch.rows_out for batch in _with_rows(seen)):  # it goes on
        return None
    timed = sorted(
        (
            (state.watermark_ms, name, source)
            for name, source in seen.sources
            if (state := source.state) is not None
            and state.watermark_ms is not None
            and state.watermark_ms < MAX_WATERMARK_MS
        ),
        key=lambda found: found[:2],
    )
    for count, gap_ms in _gaps([at_ms for at_ms, _, _ in timed]):
        holding = _all_of(source for _, _, source in timed[:count])
        # as with splits; of two tables, either may be the one that a record of the future moved
        if 2 * count >= len(timed) and not holding.stands_still(seen, now_ms):
            continue
        hold = _tables([name for _, name, _ in timed[:count]])
        behind = f"{_whole(gap_ms)} behind the next"
        return holding.with_lag(
            f"waits: {hold} the watermark at {_instant(timed[0][0])}, {behind}",
            seen,
            now_ms,
            several=count > 1,
            # an idle-timeout lets the other splits of a table go on, not the other tables
            advice=f"only {'its' if count == 1 else 'their'} records move it on",
        )
    return None


def _all_of(sources: Iterable[SourceMetrics]) -> _Held:
    return _Held(
        splits=tuple(
            (source, split)
            for source in sources
            if source.state is not None
            for split in source.state.splits
            if not split.finished
        )
    )


def _gaps(times_ms: Sequence[int]) -> list[tuple[int, int]]:
    """Return the gaps between times in order that are wide, the widest first: how many are before it, and its width."""
    widths = [after - before for before, after in pairwise(times_ms)]
    found = [(count, width) for count, width in enumerate(widths, 1) if width > FAR_BEHIND_MS]
    return sorted(found, key=lambda gap: -gap[1])


def _no_watermark(seen: PipelineObservation, now_ms: int) -> _Said:
    for source, state in _states(seen):
        timeless = [
            split
            for split in _active(state)
            if split.watermark_ms is None and split.split_id in holders(state)
        ]
        if timeless:
            held = _Held(splits=tuple((source, split) for split in timeless))
            them = "it" if len(timeless) == 1 else "them"
            return held.with_lag(
                f"waits: {_names(held.ids)} had no record with a time, and the watermark waits for {them}",
                seen,
                now_ms,
                several=len(timeless) > 1,
            )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """Splits that hold the watermark, each with its table."""

    splits: tuple[tuple[SourceMetrics, SplitState], ...]

    @property
    def ids(self) -> list[str]:
        return [split.split_id for _, split in self.splits]

    def with_lag(
        self,
        text: str,
        seen: PipelineObservation,
        now_ms: int,
        *,
        several: bool,
        advice: str = f"set {IDLE_TIMEOUT.key}",
    ) -> tuple[str, str]:
        """Add whether they have records, and what lets the others go on where they have none.

        `several` tells whether the text names several.
        """
        lag = self._lag(seen)
        if lag:
            their = "their" if several else "its"
            return f"{text}; {lag:,} of {their} records are not read yet", ""
        silent_ms = self._silent_ms(seen, now_ms)
        silent = f"silent for {_whole(silent_ms)}" if silent_ms >= LEAST_SILENCE_MS else ""
        caught_up = "caught up" if seen.ends_known else ""
        facts = ", ".join(filter(None, (caught_up, silent)))
        if not facts:
            return text, ""
        return f"{text}; {facts}", advice

    def stands_still(self, seen: PipelineObservation, now_ms: int) -> bool:
        """Whether they have records that are not read yet, or had none for a while."""
        return self._lag(seen) > 0 or self._silent_ms(seen, now_ms) >= LEAST_SILENCE_MS

    def _lag(self, seen: PipelineObservation) -> int:
        if not seen.ends_known:
            return 0
        return sum(source.lag_of(split) for source, split in self.splits)

    def _silent_ms(self, seen: PipelineObservation, now_ms: int) -> int:
        """Return for how long all of them have had no record; 0 where that is not known."""
        # a record after the last commit would be a batch
        commit_ms = seen.last_commit_ms if seen.ends_known else None
        since = [
            commit_ms if split.quiet_since_ms is None else split.quiet_since_ms
            for _, split in self.splits
        ]
        known = [each for each in since if each is not None]
        return now_ms - max(known) if known and len(known) == len(since) else 0


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


def _tables(names: Sequence[str]) -> str:
    first = ", ".join(names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"table {first} holds" if len(names) == 1 else f"tables {first}{more} hold"


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
    (SentenceRule.RECORDS_LOST, _records_lost),
    (SentenceRule.SPLIT_BEHIND, _split_behind),
    (SentenceRule.NO_WATERMARK, _no_watermark),
    (SentenceRule.PAUSED, _paused),
    (SentenceRule.TABLE_BEHIND, _table_behind),
    (SentenceRule.ALL_LATE, _all_late),
    (SentenceRule.WAITING_ROWS, _waiting_rows),
    (SentenceRule.NEVER_READ, _never_read),
    (SentenceRule.NO_OUTPUT, _no_output),
    (SentenceRule.FALLS_BEHIND, _falls_behind),
)
