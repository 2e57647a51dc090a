"""Look up the end offsets of splits on the worker at intervals, to show how far there is to read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial

from penstock.catalog.errors import InputError, RunError
from penstock.connector.contract import SplitMetadataClient
from penstock.connector.local.messages import MasterMessage, SplitOffsetsKnown, WorkFailed
from penstock.connector.local.threads import Worker
from penstock.connector.source.split import SplitOffsets

__all__ = ["EndOffsetsLookup", "is_permanent"]

logger = logging.getLogger(__name__)


def is_permanent(error: Exception) -> bool:
    """Return whether a failure would recur, or is a bug, rather than being transient."""
    if isinstance(error, RunError):
        return error.permanent
    return isinstance(error, InputError | AssertionError)


class EndOffsetsLookup:
    """Looks up end offsets, one request at a time. Coordinator's thread, but for `ends`, which is
    replaced as a whole.
    """

    def __init__(
        self, planner: SplitMetadataClient, worker: Worker, post: Callable[[MasterMessage], None]
    ) -> None:
        self._planner = planner
        self._worker = worker
        self._post = post
        self._looking = 0
        self.ends: Mapping[str, int] = {}

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return self._looking > 0

    def look(self, split_ids: Collection[str]) -> None:
        """Request the ends of splits; `know` has to be called with the answer, which arrives as SplitOffsetsKnown."""
        if split_ids:
            self._looking += 1
            self._worker.call(partial(self._planner.extents, tuple(split_ids)), self._found)

    def know(self, extents: Mapping[str, SplitOffsets], shown: Collection[str]) -> None:
        """Apply an answer; ends of splits that are neither in it nor `shown` any more are forgotten."""
        self._looking -= 1
        kept = {split_id: end for split_id, end in self.ends.items() if split_id in shown}
        self.ends = {**kept, **{split_id: extent.end for split_id, extent in extents.items()}}

    def _found(self, extents: Mapping[str, SplitOffsets] | None, error: Exception | None) -> None:
        if error is None:
            assert extents is not None, "extents without a result"
            self._post(SplitOffsetsKnown(extents=extents))
        elif is_permanent(error):
            self._post(WorkFailed(error=error))
        else:
            # a lag that is old for a while; whether reading goes on is the readers' part
            logger.debug("the ends of the splits could not be looked up: %s", error)
            self._post(SplitOffsetsKnown(extents={}))
