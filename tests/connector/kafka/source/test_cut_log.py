"""A log that was cut and has grown again past what was read: the broker's process is killed, and its file is cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from penstock.catalog.errors import DataLossError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import PhysicalColumn, Schema, Table
from penstock.catalog.model.types import IntType
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.connector.kafka.source.source import KafkaSource
from penstock.connector.scan import Scan
from penstock.connector.source.state import SourceState, decode_state, encode_state
from penstock.connector.spark.source.planning import PlanningExecutor
from tests.connector.kafka.reading import read, topic_source
from tests.kafka_server import KafkaServer

CONTINUE = {"scan.on-data-loss": "continue"}
TABLE = Table(
    identifier=Identifier(catalog="c", database="d", name="cut"),
    schema=Schema(columns=(PhysicalColumn(name="id", type=IntType()),)),
    options=(("connector", "kafka"),),
)
SCAN = Scan(table=TABLE, columns=("id",), rowtime=None, time_zone="UTC", project=".")
LOSS = r"offset 20 was there when .* ends at offset 10, or has other records from there on"


@dataclass(frozen=True)
class CutLog:
    """A topic whose log was cut at offset 10, after `before` was planned up to 20, and has 30 records now."""

    server: KafkaServer
    topic: str
    before: SourceState

    def source(self, options: dict[str, str] | None = None) -> KafkaSource:
        """The table."""
        return topic_source(self.server, self.topic, options)

    def executor(self, options: dict[str, str] | None = None) -> PlanningExecutor:
        """A new process's planning."""
        return PlanningExecutor(SCAN, self.source(options))

    def plan(self, after: SourceState, options: dict[str, str] | None = None) -> SourceState | None:
        """Plan the batch after another by a new process."""
        executor = self.executor(options)
        try:
            return executor.plan(after, None)
        finally:
            executor.close()

    def moved(self, start: int, end: int) -> SourceState:
        """A batch with that range, planned before the log was cut."""
        (split,) = self.before.splits
        return replace(self.before, splits=(replace(split, start=start, end=end),))


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CutLog]:
    """Records 0 to 9 stay, 10 to 19 are lost; what comes instead has ids from 100 on."""
    with EmbeddedBroker(tmp_path_factory.mktemp("cut")) as broker:
        server = KafkaServer(broker)
        topic = server.create_topic("cut-log")
        server.produce_json(topic, [{"id": n} for n in range(10)])
        log = log_of(broker, topic)
        size = log.stat().st_size
        server.produce_json(topic, [{"id": n} for n in range(10, 20)])
        executor = PlanningExecutor(SCAN, topic_source(server, topic))
        before = executor.plan(SourceState(), None)
        executor.close()
        assert before is not None
        broker.kill()
        with log.open("r+b") as file:
            file.truncate(size)
        broker.start()
        server.produce_json(topic, [{"id": n} for n in range(100, 120)])
        assert server.watermarks(topic) == (0, 30)
        # as Spark's log has it
        yield CutLog(server, topic, decode_state(json.loads(json.dumps(encode_state(before)))))


def log_of(broker: EmbeddedBroker, topic: str) -> Path:
    """The file of partition 0, written in full by the kill of a process."""
    (log,) = (broker.data_dir / "data" / f"{topic}-0").glob("*.log")
    return log


def test_a_log_that_was_cut_and_has_grown_past_the_position_is_a_loss(cut: CutLog) -> None:
    """Its records 10 to 19 are others now, which would never be read."""
    with pytest.raises(DataLossError, match=LOSS):
        cut.plan(cut.before)


def test_a_cut_log_is_read_on_where_it_was_cut_where_loss_is_tolerated(cut: CutLog) -> None:
    """And the plan after that finds nothing to tell."""
    planned = cut.plan(cut.before, CONTINUE)
    assert planned is not None
    ranges = {s.split_id: (s.start, s.end) for s in planned.splits}

    assert ranges == {f"{cut.topic}-0": (10, 30)}
    assert read(cut.source(), ["id"], ranges).column("id") == list(range(100, 120))
    assert cut.plan(planned) is None


def test_an_offset_without_an_epoch_is_read_on_as_before(cut: CutLog) -> None:
    """One of an earlier version says nothing of the log."""
    state = encode_state(cut.before)
    epochs = [split.pop("epoch") for split in state["splits"].values()]
    planned = cut.plan(decode_state(state))

    assert len(epochs) == 1
    assert planned is not None
    assert [(split.start, split.end) for split in planned.splits] == [(20, 30)]


def test_what_a_later_leader_has_taken_over_is_no_loss(cut: CutLog) -> None:
    """What was read up to the place of the cut is there still."""
    planned = cut.plan(cut.moved(0, 10))

    assert planned is not None
    assert [(split.start, split.end) for split in planned.splits] == [(10, 30)]


def test_a_batch_of_an_earlier_process_is_not_read_from_a_log_cut_below_it(cut: CutLog) -> None:
    """Records of its own range that are others now are no loss, as it was not committed."""
    cut.executor().check_planned(cut.moved(10, 20))
    cut.executor(CONTINUE).check_planned(cut.moved(15, 20))

    with pytest.raises(DataLossError, match=LOSS.replace("20", "15")):
        cut.executor().check_planned(cut.moved(15, 20))
