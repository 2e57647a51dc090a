"""One INSERT .. VALUES or INSERT OVERWRITE at a time into a table: the table's lease, for as long as a statement runs.

Such a statement has no checkpoint and no pipeline, so nothing else tells two of them apart, or one that was cut off
from one that is at work. Streaming INSERTs hold the lease of their pipeline, and are not kept out by this one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from penstock.catalog.errors import PipelineLockedError
from penstock.catalog.lease import LEASE_TIMEOUT_MS
from penstock.sql.run.lease import PipelineLease, hold_lease

if TYPE_CHECKING:
    from penstock.catalog.contract import Catalog
    from penstock.sql.run.clock import Clock
    from penstock.sql.run.query import PlannedQuery

__all__ = ["lease_name", "table_lease", "write_once"]

WAIT_MS = 10_000
"""How long a statement waits for the one before it, which usually takes a second."""

LOOK_MS = 100
LONGEST_NAME = 512
"""Of a lease, in the catalog's tables."""


def write_once(query: PlannedQuery, catalog: Catalog, clock: Clock) -> None:
    """Prepare the target of INSERT .. VALUES or INSERT OVERWRITE and write its rows, under the table's lease.

    Raises PipelineLockedError, and what the query raises.
    """
    with table_lease(catalog, query.sink, clock) as held:
        query.prepare()
        query.write(held.lost)


@contextmanager
def table_lease(catalog: Catalog, table: str, clock: Clock) -> Iterator[PipelineLease]:
    """Hold the lease of a table; waits a short time for another statement's end. Raises PipelineLockedError."""
    held = _acquired(catalog, table, clock)
    try:
        yield held
    finally:
        held.release()


def lease_name(table: str) -> str:
    """Name the lease of a table, as SHOW JOBS lists it."""
    name = f"INSERT INTO {table}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: LONGEST_NAME - 17]} {digest}"


def _acquired(catalog: Catalog, table: str, clock: Clock) -> PipelineLease:
    name = lease_name(table)
    for _ in range(WAIT_MS // LOOK_MS):
        try:
            return hold_lease(catalog, name, clock)
        except PipelineLockedError:
            clock.wait(Event(), LOOK_MS)
    try:
        return hold_lease(catalog, name, clock)
    except PipelineLockedError as error:
        raise _written_by_another(catalog, table) from error


def _written_by_another(catalog: Catalog, table: str) -> PipelineLockedError:
    owners = [c.lease.owner for c in catalog.claims() if c.lease.pipeline == lease_name(table)]
    by = f" of process {owners[0].pid} on host {owners[0].host}" if owners else ""
    return PipelineLockedError(
        f"another INSERT{by} writes into table {table}, and was not done after {WAIT_MS // 1000} s",
        hint="nothing was written; run this one again when that is done. Should that machine be gone, its claim ends "
        f"{LEASE_TIMEOUT_MS // 1000} s after its last sign of life",
    )
