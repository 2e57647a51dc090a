"""Holds a pipeline's lease while its job runs: renews it on a thread, notices when it is lost, gives it back once.

The rules of leases are `catalog/lease.py`'s part.
"""

from __future__ import annotations

import logging
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from penstock.catalog.errors import PenstockError, PipelineLockedError
from penstock.catalog.lease import HEARTBEAT_MS, LEASE_TIMEOUT_MS, Lease, this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.catalog.contract import Catalog
    from penstock.sql.run.clock import Clock

__all__ = ["PipelineLease", "hold_lease", "hold_leases"]

log = logging.getLogger(__name__)


class PipelineLease:
    """A lease that is kept alive until `release`. Safe to use from any thread."""

    def __init__(self, catalog: Catalog, lease: Lease, clock: Clock) -> None:
        self._catalog = catalog
        self._lease = lease
        self._clock = clock
        self._lock = Lock()
        self._released = Event()
        self._lost: PenstockError | None = None
        self._stop: Callable[[], None] = lambda: None

    def lost(self) -> PenstockError | None:
        """Tell why this process is no longer the pipeline's runner; None while it is."""
        with self._lock:
            return self._lost

    def on_stop_request(self, stop: Callable[[], None]) -> None:
        """Have `stop` called, on the thread that renews, each time that the catalog is found to ask for the end."""
        with self._lock:
            self._stop = stop

    def keep_alive(self) -> None:
        """Renew until the release, on the calling thread.

        A store that cannot be reached is tried again until the claim has run out: then another runner may have
        the pipeline, and this one must not go on.
        """
        renewed_ms = self._clock.now_ms()
        while not self._clock.wait(self._released, HEARTBEAT_MS):
            try:
                self._catalog.renew(self._lease)
                renewed_ms = self._clock.now_ms()
                self._pass_on_stop()
            except PipelineLockedError as error:
                self._lose(error)
                return
            except PenstockError as error:
                log.warning("the lease of %s could not be renewed: %s", self._lease.pipeline, error)
                if self._clock.now_ms() - renewed_ms >= LEASE_TIMEOUT_MS:
                    self._lose(error)
                    return

    def release(self) -> None:
        """Give the lease back; again does nothing."""
        if self._released.is_set():
            return
        self._released.set()
        try:
            self._catalog.release(self._lease)
        except PenstockError as error:
            log.warning("the lease of %s runs out by itself: %s", self._lease.pipeline, error)

    def _pass_on_stop(self) -> None:
        if self._catalog.is_asked_to_stop(self._lease):
            with self._lock:
                stop = self._stop
            stop()

    def _lose(self, error: PenstockError) -> None:
        with self._lock:
            self._lost = error


def hold_lease(catalog: Catalog, pipeline: str, clock: Clock) -> PipelineLease:
    """Claim a pipeline and keep the claim. Raises PipelineLockedError, which names the runner that has it."""
    held = PipelineLease(catalog, catalog.acquire_lease(pipeline, this_process()), clock)
    Thread(target=held.keep_alive, name=f"penstock lease {pipeline}", daemon=True).start()
    return held


def hold_leases(
    catalog: Catalog, pipelines: Iterable[str], clock: Clock
) -> dict[str, PipelineLease]:
    """Claim several pipelines, all or none. Raises PipelineLockedError, which names the runner that has one."""
    held: dict[str, PipelineLease] = {}
    try:
        for pipeline in pipelines:
            held[pipeline] = hold_lease(catalog, pipeline, clock)
    except BaseException:
        for lease in held.values():
            lease.release()
        raise
    return held
