"""Planning against a real broker: listing, positions, extents, group offsets, and topics that change."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock.catalog.errors import (
    BrokerUnavailableError,
    DataLossError,
    OptionError,
    TopicChangedError,
    UnknownObjectError,
)
from penstock.connector.commits import OffsetCommits
from penstock.connector.contract import ReadRequest
from penstock.connector.kafka.client import admin
from penstock.connector.kafka.client.client import REQUEST_TIMEOUT_S
from penstock.connector.kafka.client.connection import TopicInfo, TopicPartition
from penstock.connector.kafka.source import metadata_client
from penstock.connector.kafka.source.metadata_client import GroupCommitter
from penstock.connector.source.split import SplitOffsets
from penstock.connector.spark.source.planning import PlanningExecutor
from tests.connector.kafka.reading import open_transaction, planned, planning, topic_source
from tests.connector.kafka.tables import kafka_source
from tests.connector.spark.source.test_planning import SCAN

if TYPE_CHECKING:
    from penstock.connector.kafka.client.admin import KafkaAdmin
    from tests.kafka_server import KafkaServer

HOUR_MS = 3_600_000
NOON_MS = 1_700_000_000_000


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Rows with ids in order."""
    return [{"id": number, "name": f"n{number}"} for number in range(first, first + count)]


def starts_of(kafka: KafkaServer, topic: str, **options: str) -> dict[str, int]:
    """Start positions of the first listing; options are written with `__` for `.` and `_` for `-`."""
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    with planning(topic_source(kafka, topic, given)) as planner:
        split_ids = sorted(planner.list_splits().owners)
        return dict(planner.start_positions(split_ids, first_listing=True))


def test_partitions_are_listed_with_their_topics_ids(kafka: KafkaServer) -> None:
    """A split a partition; the id tells one topic from another of the same name."""
    one, two = kafka.create_topic(partitions=2), kafka.create_topic()

    with planning(topic_source(kafka, f"{two};{one}")) as planner:
        found = planner.list_splits()

    assert found.owners == {f"{one}-0": one, f"{one}-1": one, f"{two}-0": two}
    assert found.source_ids.keys() == {one, two}
    assert found.source_ids[one] != found.source_ids[two]


def test_a_pattern_finds_topics_made_later(kafka: KafkaServer) -> None:
    """And only those that match as a whole."""
    first = kafka.create_topic("shop-eu")
    kafka.create_topic("my-shop-eu")

    source = topic_source(kafka, None, {"topic-pattern": "shop-(eu|us)"})
    with planning(source) as planner:
        assert planner.list_splits().owners == {"shop-eu-0": first}
        kafka.create_topic("shop-us")
        assert sorted(planner.list_splits().owners) == ["shop-eu-0", "shop-us-0"]


def test_a_list_of_topics_from_a_broker_that_is_behind_deletes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pattern's topic that was listed before is asked for by its name."""
    described = {"shop-eu": TopicInfo(topic_id="id-1", partitions=(0,))}
    lists = iter([("shop-eu",), ()])
    with planning(kafka_source({"topic": None, "topic-pattern": "shop-.*"})) as planner:
        monkeypatch.setattr(planner._admin, "topic_names", lambda: next(lists))
        monkeypatch.setattr(
            planner._admin,
            "topics",
            lambda names, **_: {name: described[name] for name in names},
        )

        assert planner.list_splits() == planner.list_splits()


def test_a_topic_that_does_not_exist_is_the_users_mistake(kafka: KafkaServer) -> None:
    """With the nearest one that does."""
    kafka.create_topic("clickstream")

    with (
        planning(topic_source(kafka, "clickstraem")) as planner,
        pytest.raises(UnknownObjectError) as caught,
    ):
        planner.list_splits()

    assert f"Kafka at {kafka.bootstrap} has no topic 'clickstraem'" in caught.value.message
    assert caught.value.hint == "did you mean 'clickstream'?"


def test_partitions_found_later_start_at_their_first_record(kafka: KafkaServer) -> None:
    """With any startup mode (FLINK-32019)."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, rows(3))

    with planning(topic_source(kafka, topic, {"scan.startup.mode": "latest-offset"})) as planner:
        assert planner.start_positions(list(planner.list_splits().owners), first_listing=True) == {
            f"{topic}-0": 3
        }
        kafka.add_partitions(topic, 2)
        kafka.produce_json(topic, rows(5), partition=1)
        assert sorted(planner.list_splits().owners) == [f"{topic}-0", f"{topic}-1"]
        assert planner.start_positions([f"{topic}-1"], first_listing=False) == {f"{topic}-1": 0}


def test_the_five_startup_modes(kafka: KafkaServer) -> None:
    """Each on a partition with deleted records, one record an hour."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, rows(6), timestamps_ms=[NOON_MS + i * HOUR_MS for i in range(6)])
    kafka.delete_records(topic, {0: 1})
    split = f"{topic}-0"
    half_past_two = str(NOON_MS + 5 * HOUR_MS // 2)

    def start(mode: str, **options: str) -> int:
        return starts_of(kafka, topic, scan__startup__mode=mode, **options)[split]

    assert start("earliest-offset") == 1
    assert start("latest-offset") == 6
    assert start("timestamp", scan__startup__timestamp_millis=half_past_two) == 3
    assert start("timestamp", scan__startup__timestamp_millis=str(NOON_MS + 9 * HOUR_MS)) == 6
    assert start("specific-offsets", scan__startup__specific_offsets="partition:0,offset:4") == 4

    group = f"group-{topic}"
    with pytest.raises(OptionError, match=f"no committed offset for: {split}"):
        start("group-offsets", properties__group__id=group)
    reset = {"properties__group__id": group, "properties__auto__offset__reset": "latest"}
    assert start("group-offsets", **reset) == 6
    with planning(topic_source(kafka, topic, {"properties.group.id": group})) as planner:
        planner.commit({split: 2})
    assert start("group-offsets", properties__group__id=group) == 2


def test_the_bounded_modes(kafka: KafkaServer) -> None:
    """Stops are resolved once, at the first listing."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce_json(topic, rows(6), timestamps_ms=[NOON_MS + i * HOUR_MS for i in range(6)])
    group = f"group-{topic}"
    # a commit does not wait for the group's coordinator, which a new broker elects at the first request
    assert kafka.committed(group, topic, range(2)) == {}
    with planning(topic_source(kafka, topic, {"properties.group.id": group})) as planner:
        planner.commit({f"{topic}-0": 5, f"{topic}-1": 0})

    def stops(mode: str, **options: str) -> list[int]:
        given = {"scan.bounded.mode": mode, "properties.group.id": group, **options}
        with planning(topic_source(kafka, topic, given)) as planner:
            return [stop for _, (_, stop) in sorted(planned(planner).items())]

    assert stops("latest-offset") == [6, 0]
    assert stops("group-offsets") == [5, 0]
    assert stops("timestamp", **{"scan.bounded.timestamp-millis": str(NOON_MS + HOUR_MS)}) == [1, 0]
    assert stops(
        "specific-offsets", **{"scan.bounded.specific-offsets": "partition:0,offset:2"}
    ) == [2, 0]


def test_extents_end_at_the_last_stable_offset(kafka: KafkaServer) -> None:
    """What an open transaction has written is not promised to anyone yet, unless the table asks for it."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, rows(3))
    with open_transaction(kafka, topic, [b"{}"] * 2):
        with planning(topic_source(kafka, topic)) as planner:
            assert planner.extents([f"{topic}-0"]) == {
                f"{topic}-0": SplitOffsets(first=0, end=3, epoch=0)
            }
        dirty = topic_source(kafka, topic, {"properties.isolation.level": "read_uncommitted"})
        with planning(dirty) as planner:
            assert planner.extents([f"{topic}-0"]) == {
                f"{topic}-0": SplitOffsets(first=0, end=5, epoch=0)
            }


def test_the_error_for_a_log_that_ends_before_what_was_read_names_its_end(
    kafka: KafkaServer,
) -> None:
    """Nothing was deleted unread there."""
    with planning(topic_source(kafka, "any")) as planner:
        error = planner.lost("any-0", 12, SplitOffsets(first=0, end=10))

    assert "offset 12 was there when it was planned, but the log now ends at offset 10" in str(
        error
    )


def test_deleted_records_move_the_first_offset(kafka: KafkaServer) -> None:
    """The error for them names topic, partition and both offsets."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, rows(9))
    kafka.delete_records(topic, {0: 7})

    with planning(topic_source(kafka, topic)) as planner:
        extent = planner.extents([f"{topic}-0"])[f"{topic}-0"]
        error = planner.lost(f"{topic}-0", 2, extent)

    assert extent == SplitOffsets(first=7, end=9, epoch=0)
    assert isinstance(error, DataLossError)
    for part in (
        f"topic '{topic}'",
        "partition 0",
        "has offset 2",
        "starts at offset 7",
        "5 offsets",
    ):
        assert part in error.message
    assert "'scan.on-data-loss' = 'continue'" in str(error.hint)


def test_a_topic_made_again_is_noticed_at_the_next_look(kafka: KafkaServer) -> None:
    """Not only at the next listing: its offsets mean other records from then on."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, rows(3))

    with planning(topic_source(kafka, topic)) as planner:
        known = planner.list_splits().source_ids[topic]
        planner.extents([f"{topic}-0"])
        kafka.delete_topic(topic)
        kafka.create_topic(topic)
        with pytest.raises(TopicChangedError, match="was deleted and made again") as caught:
            planner.extents([f"{topic}-0"])
        found = planner.list_splits().source_ids[topic]

    assert found != known
    assert known in caught.value.message
    assert found in caught.value.message


def test_a_deleted_topic_is_noticed_at_the_next_look(kafka: KafkaServer) -> None:
    """A listing then comes without it, so that the coordinator can tell."""
    topic = kafka.create_topic()

    with planning(topic_source(kafka, topic)) as planner:
        planner.list_splits()
        kafka.delete_topic(topic)
        with pytest.raises(TopicChangedError, match="was deleted while it was read"):
            planner.extents([f"{topic}-0"])
        assert planner.list_splits().owners == {}


def test_committed_offsets_are_seen_by_others(kafka: KafkaServer) -> None:
    """Next offsets, as Kafka's own consumers commit them."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce_json(topic, rows(4))
    assert kafka.committed(f"seen-{topic}", topic, [0, 1]) == {}  # its coordinator is there

    with planning(topic_source(kafka, topic, {"properties.group.id": f"seen-{topic}"})) as planner:
        planner.commit({f"{topic}-0": 4, f"{topic}-1": 0})

    assert kafka.committed(f"seen-{topic}", topic, [0, 1]) == {0: 4, 1: 0}


@pytest.mark.parametrize(
    "options",
    [{}, {"properties.group.id": "quiet", "properties.commit.offsets.on.checkpoint": "false"}],
    ids=["no group", "told not to"],
)
def test_nothing_is_committed_without_leave(kafka: KafkaServer, options: dict[str, str]) -> None:
    """Flink's commit.offsets.on.checkpoint."""
    topic = kafka.create_topic()

    with planning(topic_source(kafka, topic, options)) as planner:
        planner.commit({f"{topic}-0": 1})

    assert kafka.committed("quiet", topic, [0]) == {}


def test_a_commit_never_waits_and_never_fails_the_query(caplog: pytest.LogCaptureFixture) -> None:
    """With no broker at all: a warning for the one skipped, none of it an error."""
    source = kafka_source({"properties.group.id": "g"})

    with planning(source) as planner, caplog.at_level(logging.WARNING):
        began = time.monotonic()
        planner.commit({"orders-0": 1})
        planner.commit({"orders-0": 2})
        took = time.monotonic() - began
        planner._committer = None  # not to wait for it at the end

    assert took < REQUEST_TIMEOUT_S
    assert "the last commit is not done" in caplog.text


class Group:
    """A consumer group's coordinator: commits stay open until the test ends them, in their order."""

    def __init__(self) -> None:
        self.sent: list[dict[TopicPartition, int]] = []
        self.futures: list[Future[Any]] = []
        self.ends_at_once = False

    def commit(self, _group: str, offsets: dict[TopicPartition, int]) -> Future[Any]:
        """Take a request."""
        self.sent.append(offsets)
        self.futures.append(Future())
        if self.ends_at_once:
            self.end()
        return self.futures[-1]

    def end(self, error: str | None = None) -> None:
        """End the last request, with an error for its partition."""
        partition = SimpleNamespace(error=error)
        self.futures[-1].set_result(SimpleNamespace(topic_partitions=[partition]))


SPLIT = TopicPartition("orders", 0)


def committer(group: Group) -> GroupCommitter:
    """Make a committer to that group."""
    return GroupCommitter(cast("KafkaAdmin", group), "g")


def test_offsets_that_were_skipped_are_sent_once_the_commit_before_has_ended() -> None:
    """Also where no later ones come; the newest alone, and once."""
    group = Group()
    made = committer(group)
    for offset in (5, 7, 9):
        made.commit({SPLIT: offset})
    made.commit_owed()
    assert group.sent == [{SPLIT: 5}]
    group.end()
    made.commit_owed()
    assert group.sent == [{SPLIT: 5}, {SPLIT: 9}]
    group.end()
    made.commit_owed()

    assert group.sent == [{SPLIT: 5}, {SPLIT: 9}]
    assert made.offset_commits == OffsetCommits(ok=2, skipped=2)


def test_offsets_that_failed_are_sent_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at each look at an idle table: the right to commit may lack for good."""
    clock_s = 100.0
    monkeypatch.setattr(metadata_client.time, "monotonic", lambda: clock_s)
    group = Group()
    made = committer(group)
    made.commit({SPLIT: 5})
    group.end("the coordinator moves")
    made.commit_owed()
    made.commit_owed()
    assert group.sent == [{SPLIT: 5}]
    clock_s += metadata_client.COMMIT_AGAIN_AFTER_S
    made.commit_owed()

    assert group.sent == [{SPLIT: 5}] * 2
    assert made.offset_commits == OffsetCommits(failed=1)


@pytest.mark.parametrize("error", [None, "the coordinator moves"])
def test_the_end_of_a_run_commits_what_is_owed(error: str | None) -> None:
    """What was skipped, and what failed."""
    group = Group()
    made = committer(group)
    made.commit({SPLIT: 5})
    if error is None:
        made.commit({SPLIT: 9})
    group.end(error)
    group.ends_at_once = True
    made.finish(1.0)

    assert group.sent == [{SPLIT: 5}, {SPLIT: 9 if error is None else 5}]
    assert made.offset_commits.ok == (2 if error is None else 1)


def test_a_planning_executor_has_its_client_commit_what_is_owed() -> None:
    """It asks the client that is open, and opens none for it."""
    group, client = (
        Group(),
        kafka_source({"properties.group.id": "g"}).open_planner(ReadRequest(columns=())),
    )
    client._committer = committer(group)
    executor = PlanningExecutor(SCAN, kafka_source())
    executor.commit_owed()
    executor._planner = client
    client.commit({"orders-0": 5})
    client.commit({"orders-0": 9})
    group.end()
    group.ends_at_once = True
    executor.commit_owed()

    assert group.sent == [{SPLIT: 5}, {SPLIT: 9}]
    assert executor.offset_commits == OffsetCommits(ok=2, skipped=1)


def test_a_broker_that_is_down_is_named_with_its_last_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the product within 30 s; here the waits are shortened."""
    monkeypatch.setattr(admin, "REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr(admin, "GIVE_UP_AFTER_S", 0.5)

    with planning(kafka_source()) as planner, pytest.raises(BrokerUnavailableError) as caught:
        planner.list_splits()

    assert "Kafka at 127.0.0.1:1 did not answer" in caught.value.message
    assert "Connection refused" in caught.value.message
    assert "properties.bootstrap.servers" in str(caught.value.hint)
    monkeypatch.undo()
    assert admin.REQUEST_TIMEOUT_S + admin.GIVE_UP_AFTER_S <= 30.0
