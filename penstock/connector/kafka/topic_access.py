"""Access to the topics of a table's cluster, for dead letters (`TopicAccess`): are they there, and records replayed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.connector.kafka.client.admin import KafkaAdmin
from penstock.connector.kafka.client.connection import admin_connection
from penstock.connector.kafka.sink.client import SinkAdmin, check_topics
from penstock.connector.kafka.sink.replay import ClusterReplay, replay_records
from penstock.connector.kafka.sink.settings import read_sink_settings
from penstock.connector.kafka.table.fields import KafkaTable
from penstock.connector.kafka.table.settings import TopicList
from penstock.connector.source.records import RawRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopicAccess:
    """Uses the log-in of `table`; `owner` is its name in messages."""

    table: KafkaTable
    owner: str

    def exists(self, topic: str) -> bool:
        """Ask the brokers for the topic."""
        admin = KafkaAdmin(admin_connection(self.table.settings.client))
        return topic in admin.topics([topic])

    def check(self, topics: Sequence[str]) -> None:
        """Check that the topics exist: a replay creates none."""
        admin = SinkAdmin(admin_connection(self.table.settings.client))
        check_topics(admin, TopicList(topics=tuple(sorted(topics))))

    def replay(
        self, records: Iterable[RawRecord], *, name: str, target: str | None, marked: str
    ) -> int | None:
        """Write records in one transaction."""
        replay = ClusterReplay(
            client=self.table.settings.client,
            sink=read_sink_settings(self.table.settings.resolved, upsert=False, owner=self.owner),
            name=name,
            target=target,
            marked=marked,
        )
        return replay_records(replay, records)
