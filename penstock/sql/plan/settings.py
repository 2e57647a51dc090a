"""The settings of a session that the planner reads: keys of SET, with Flink's names where Flink has them."""

from __future__ import annotations

from penstock.catalog.options import DURATION, INT, STRING, Option

__all__ = [
    "CHECKPOINT_DIR",
    "CHECKPOINT_INTERVAL",
    "LOCAL_TIME_ZONE",
    "PIPELINE_NAME",
    "SETTINGS",
    "STATE_PARTITIONS",
]

PIPELINE_NAME = Option(
    key="pipeline.name",
    type=STRING,
    default=None,
    doc="Name of the pipeline: its checkpoints and its lease. Default: the name of the SQL file.",
)
CHECKPOINT_DIR = Option(
    key="execution.checkpointing.dir",
    type=STRING,
    default=".penstock/checkpoints",
    doc="Where checkpoints are kept, as <dir>/<pipeline>/<sink>: a path relative to the project, or a Hadoop URL.",
)
CHECKPOINT_INTERVAL = Option(
    key="execution.checkpointing.interval",
    type=DURATION,
    default=0,
    doc="Time between the starts of two micro-batches of a continuous query; 0 runs one after the other.",
)
LOCAL_TIME_ZONE = Option(
    key="table.local-time-zone",
    type=STRING,
    default="UTC",
    doc="The session's time zone, for TIMESTAMP_LTZ and conversions. (Flink: default is the machine's.)",
)
STATE_PARTITIONS = Option(
    key="parallelism.default",
    type=INT,
    default=None,
    doc="Number of partitions of an operator with state; fixed when a pipeline first starts.",
)
SETTINGS = (PIPELINE_NAME, CHECKPOINT_DIR, CHECKPOINT_INTERVAL, LOCAL_TIME_ZONE, STATE_PARTITIONS)
