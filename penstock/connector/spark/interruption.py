"""A batch that is interrupted because its query is stopped, told to Spark in words that it can bear.

Spark looks into the report of a failed `foreachBatch` for an interruption with a regular expression that needs stack
for each character behind "calling" (StreamExecution.PROXY_ERROR). Java's own report has thousands: the query's thread
ended with a StackOverflowError in Spark's log, in the place of a query that was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError

__all__ = ["BatchInterruptedError", "told_shortly"]

_INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
    "SPARK_JOB_CANCELLED",
)
"""What Spark throws in a batch whose query is stopped (StreamExecution.isInterruptionException)."""

DEEPEST_CAUSE = 20
"""A chain of causes longer than this goes round in circles."""


class BatchInterruptedError(RuntimeError):
    """A batch was interrupted, as `kind` says; in the words that Spark looks for."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"the batch was interrupted by {kind} (py4j.protocol.Py4JJavaError: An error occurred while calling: "
            f"{_INTERRUPTIONS[0]})"
        )


@contextmanager
def told_shortly() -> Iterator[None]:
    """Raise BatchInterruptedError in the place of an interruption, without what led to it; other errors pass."""
    try:
        yield
    except Exception as error:
        kind = _interruption(error)
        if kind is None:
            raise
        raise BatchInterruptedError(kind) from None


def _interruption(error: Exception) -> str | None:
    """Give the word by which an error, or one that led to it, says that its batch was interrupted."""
    layer: BaseException | None = error
    for _ in range(DEEPEST_CAUSE):
        if isinstance(layer, Py4JJavaError):
            text = str(layer)
            return next((name for name in _INTERRUPTIONS if name in text), None)
        if layer is None:
            break
        layer = layer.__cause__ or layer.__context__
    return None
