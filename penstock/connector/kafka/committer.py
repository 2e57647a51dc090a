"""Publishes progress as offsets of the consumer group, beside the query and never in its way (Flink §4.7)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future, wait
from typing import Any

from penstock.connector.kafka.admin import KafkaAdmin
from penstock.connector.kafka.split import TopicPartition

__all__ = ["GroupCommitter"]

logger = logging.getLogger(__name__)


class GroupCommitter:
    """Commits one set of offsets at a time; failures are logged and otherwise without effect."""

    def __init__(self, admin: KafkaAdmin, group: str) -> None:
        self._admin = admin
        self._group = group
        self._pending: Future[Any] | None = None

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Send offsets (of the next records to read) and return; skipped while others are under way."""
        if self._pending is not None and not self._pending.done():
            logger.warning(
                "group '%s': offsets not committed, the last commit is not done", self._group
            )
            return
        try:
            self._pending = self._admin.commit(self._group, offsets)
        except Exception as error:  # noqa: BLE001  progress for others to see must not end a query
            self._warn(error)
            return
        self._pending.add_done_callback(self._report)

    def finish(self, timeout_s: float) -> None:
        """Wait for the commit under way."""
        if self._pending is not None:
            wait([self._pending], timeout_s)

    def _report(self, done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            self._warn(error)
            return
        failed = [p for p in done.result().topic_partitions if p.error is not None]
        if failed:
            self._warn(failed[0].error)

    def _warn(self, error: object) -> None:
        logger.warning("group '%s': offsets could not be committed: %s", self._group, error)
