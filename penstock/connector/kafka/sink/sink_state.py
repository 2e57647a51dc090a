"""The state of a sink in the checkpoint: the number of its slots, its first batch, the topic of its markers.

The driver writes it before the first batch and never changes it: replays and restarts read the same.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from penstock.catalog.errors import StateMismatchError
from penstock.connector.spark.hadoop_files import read_text, write_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "BEGAN",
    "FOLDER",
    "SinkState",
    "check_unchanged",
    "parse_sink_state",
    "read_sink_state",
    "record_sink_state",
]

FOLDER = "kafka-sinks"
"""In the checkpoint, beside Spark's own."""

BEGAN = "began"
"""Name of the ledger's file, in a folder for each sink."""

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """What was decided when the sink began. `topic` holds the markers, with its partition 0."""

    prefix: str
    slots: int
    first_batch: int
    topic: str


def read_sink_state(spark: SparkSession, path: str) -> SinkState | None:
    """Read it; None where the sink has not begun. Raises StateMismatchError where the file is damaged."""
    text = read_text(spark, path)
    return None if text is None else parse_sink_state(text, path)


def parse_sink_state(text: str, path: str) -> SinkState:
    """Read the text of a ledger; messages name it by `path`. Raises StateMismatchError where it is damaged."""
    try:
        value = json.loads(text)
        if value.pop("version") != VERSION:
            raise ValueError("another version")
        return SinkState(**value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StateMismatchError(
            f"the file {path} does not say how this Kafka sink began: {error}",
            hint="restore the checkpoint from a backup; or SET another 'pipeline.name' to start over",
        ) from error


def record_sink_state(spark: SparkSession, path: str, ledger: SinkState) -> SinkState:
    """Write it, unless it is there; returns what is there then."""
    write_text(spark, path, json.dumps({"version": VERSION, **asdict(ledger)}))
    found = read_sink_state(spark, path)
    assert found is not None, "just written"
    return found


def check_unchanged(ledger: SinkState, *, prefix: str, slots: int | None, owner: str) -> None:
    """Check that the table still names what the sink began with. Raises StateMismatchError."""
    if prefix != ledger.prefix:
        raise StateMismatchError(
            f"{owner}: 'sink.transactional-id-prefix' was '{ledger.prefix}' when this pipeline began, and is "
            f"'{prefix}' now: its markers would not be found",
            hint="set it back; or SET another 'pipeline.name' to start over",
        )
    if slots is not None and slots != ledger.slots:
        raise StateMismatchError(
            f"{owner}: 'sink.parallelism' was {ledger.slots} when this pipeline began, and is {slots} now: rows would "
            "move to other slots",
            hint=f"set it to {ledger.slots}, or leave it out; or SET another 'pipeline.name' to start over",
        )
