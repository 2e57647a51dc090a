"""What every sink declares (`connector/contract.py`), as tests without an engine; a sink runs them with its context.

What its writes do to a target is in `sink_writes.py`, on Spark.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import Table
from penstock.connector.contract import Sink, SinkCapabilities
from penstock.connector.registry import connector_of

__all__ = ["SinkContext", "SinkContract"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """A table, and what its sink is to declare."""

    table: Table
    capabilities: SinkCapabilities

    @property
    def sink(self) -> Sink:
        """The sink, checked as CREATE TABLE and INSERT do."""
        connector = connector_of(self.table, project=Path("/project"))
        connector.check(self.table)
        return connector.sink(self.table)


def overrides(sink: Sink, method: str) -> bool:
    """Whether a sink has a method of its own in the place of the contract's default."""
    return getattr(type(sink), method) is not getattr(Sink, method)


class SinkContract:
    """The suite. A subclass has a fixture `context`."""

    @pytest.fixture
    def context(self) -> SinkContext:
        """The sink under test."""
        raise NotImplementedError

    def test_a_sink_declares_what_it_takes_and_promises(self, context: SinkContext) -> None:
        """In one value, the same whenever it is asked, before anything is prepared."""
        sink = context.sink

        assert sink.capabilities == context.capabilities == sink.capabilities
        with pytest.raises(FrozenInstanceError):
            sink.capabilities.bounded_only = True  # type: ignore[misc]

    def test_a_resumable_sink_checks_its_target_and_no_other_can(
        self, context: SinkContext
    ) -> None:
        """With an engine and without one."""
        sink = context.sink
        if sink.capabilities.resumable:
            assert overrides(sink, "check_resumes")
            assert overrides(sink, "check_resumes_here")
            return
        with pytest.raises(AssertionError, match="not resumable"):
            sink.check_resumes(cast("Any", None), "c", "")
        with pytest.raises(AssertionError, match="not resumable"):
            sink.check_resumes_here(Path("c"), None, "")

    def test_a_lease_and_gaps_change_nothing_that_a_sink_declares(
        self, context: SinkContext
    ) -> None:
        """They give a sink of the same kind."""
        sink = context.sink
        for made in (sink.under_lease(lambda: None), sink.with_gaps()):
            assert type(made) is type(sink)
            assert made.capabilities == sink.capabilities

    def test_a_sink_for_queries_that_end_takes_no_stream(self, context: SinkContext) -> None:
        """Neither as a query nor batch by batch."""
        if not context.capabilities.bounded_only:
            return
        with pytest.raises(UnsupportedError):
            context.sink.start(cast("Any", None), cast("Any", None))
        with pytest.raises(UnsupportedError):
            context.sink.write_batch(cast("Any", None), cast("Any", None))

    def test_what_needs_the_row_before_an_update_takes_all_changes(
        self, context: SinkContext
    ) -> None:
        """One that takes inserts alone gets no updates."""
        capabilities = context.sink.capabilities

        assert capabilities.accepts.kinds or not capabilities.needs_update_before
        assert not (capabilities.needs_update_before and len(capabilities.accepts.kinds) == 1)
