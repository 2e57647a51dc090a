"""Limits of bad records in a batch: too many of them stop the query (circuit breaker).

A task stops as soon as its own records prove that the batch exceeds a limit; the driver adds up the counts of
all tasks before the batch is committed. The ratio is one of the whole batch: a short split full of bad records
does not stop a batch that is otherwise good.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.catalog.errors import BadRecordError
from penstock.connector.options.bad_records import BadRecordSettings

FEWEST_JUDGED = 1000
"""Records below which a batch is too small for a share to say anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Records that were read, and how many of them were bad."""

    read: int = 0
    bad: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(read=self.read + other.read, bad=self.bad + other.bad)


def check_task(
    settings: BadRecordSettings, tally: Tally, table: str, *, batch_positions: int | None
) -> None:
    """Stop a task whose batch is lost: whatever the other tasks find, it has too many bad records.

    `batch_positions` are the positions of all ranges of the batch, which bound its records; None where they are not
    known. Raises BadRecordError.
    """
    if settings.max_rows is not None and tally.bad > settings.max_rows:
        raise _too_many(settings, tally, table)
    if batch_positions is None or tally.read < FEWEST_JUDGED:
        return
    if tally.bad > settings.max_ratio * batch_positions:
        raise _too_many(settings, tally, table)


def check_batch(settings: BadRecordSettings, tally: Tally, table: str) -> None:
    """Stop a query whose batch has too many bad records. Raises BadRecordError."""
    by_rows = settings.max_rows is not None and tally.bad > settings.max_rows
    by_ratio = tally.read >= FEWEST_JUDGED and tally.bad > settings.max_ratio * tally.read
    if by_rows or by_ratio:
        raise _too_many(settings, tally, table)


def _too_many(settings: BadRecordSettings, tally: Tally, table: str) -> BadRecordError:
    limits = [f"'bad-records.max-ratio' = '{settings.max_ratio:g}'"]
    if settings.max_rows is not None:
        limits.append(f"'bad-records.max-rows' = '{settings.max_rows}'")
    return BadRecordError(
        f"table {table}: too many bad records in a batch: {tally.bad:,} of {tally.read:,} that were read cannot be "
        f"decoded, which is more than {' or '.join(limits)} allows; none of the batch's dead letters were published",
        hint="look at some with `penstock peek` and 'bad-records' = 'fail', which names the first one; fix the "
        "producer or the table's columns, or raise the limit: the batch is then done again",
    )
