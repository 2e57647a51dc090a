"""Rides out a broker that is away while a batch is planned: tries again for a while, and says so once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from penstock.catalog.errors import BrokerUnavailableError
from penstock.connector.outage import OutageFile

__all__ = ["Patience", "ride_out"]

T = TypeVar("T")
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to try, and the pauses between attempts, which double up to the longest. In seconds."""

    total_s: float = 120.0
    first_pause_s: float = 0.5
    longest_pause_s: float = 5.0


def ride_out(
    action: Callable[[], T], *, what: str, patience: Patience, told: OutageFile | None = None
) -> T:
    """Do `action`, again while the broker does not answer; `what` names it in the log. Blocks.

    `told` is where the process that runs the query sees it meanwhile, and still when this has given up. Raises the last
    BrokerUnavailableError once the outage lasts longer than the patience.
    """
    began_s: float | None = None
    pause_s = patience.first_pause_s
    while True:
        try:
            done = action()
        except BrokerUnavailableError as error:
            if told is not None:
                told.note(error)
            now_s = time.monotonic()
            if now_s - (began_s or now_s) + pause_s > patience.total_s:
                raise
            if began_s is None:
                began_s = now_s
                LOG.warning("%s: %s; trying for %.0f s", what, error.message, patience.total_s)
            threading.Event().wait(pause_s)
            pause_s = min(2 * pause_s, patience.longest_pause_s)
            continue
        if began_s is not None:
            LOG.warning("%s goes on after %.0f s", what, time.monotonic() - began_s)
        if told is not None:
            told.clear()
        return done
