"""A connection to PostgreSQL that times out on a server, or a network, that does not answer.

The driver's timeouts cover only connecting, TCP's notice a broken network: behind a proxy or a hanging server, a
statement would wait without end. Imported where psycopg is needed.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg import Connection

from penstock.catalog.store.deadline import ANSWER_TIMEOUT_S, DEADLINE_S

T = TypeVar("T")


class BoundedConnection(Connection[Any]):
    """Waits for each answer no longer than ANSWER_TIMEOUT_S, and not beyond DEADLINE_S: then it is closed.

    What waited raises OperationalError.
    """

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        """Do a step of the protocol."""
        return super().wait(self._in_time(gen), *args, **kwargs)

    def _in_time(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Pass the driver's readiness to the step, and ten times a second that nothing is ready."""
        began_s = time.monotonic()
        deadline_s = min(began_s + ANSWER_TIMEOUT_S, DEADLINE_S.get())
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now_s = time.monotonic()
                if not ready and now_s > deadline_s:
                    # an answer that comes later would be taken for that of another statement
                    self.pgconn.finish()
                    raise psycopg.OperationalError(
                        f"the server has not answered for {now_s - began_s:.0f} s"
                    )
                wanted = gen.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value
