"""The base of all Kafka clients: settings, the last error, meaning of error codes, log lines, safety in forks."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message

from penstock.catalog.errors import OptionError, PenstockError
from penstock.catalog.options.redaction import is_secret
from penstock.catalog.options.references import reveal
from penstock.connector.kafka.client.connection import Connection
from penstock.connector.kafka.client.errors import access_denied, broker_unavailable
from penstock.connector.kafka.client.properties import REFERENCES

__all__ = [
    "DENIED",
    "GONE",
    "REQUEST_TIMEOUT_S",
    "ClientLog",
    "KafkaClient",
    "Message",
    "outlive_forks",
]

_HANDLES: weakref.WeakSet[object] = weakref.WeakSet()


def outlive_forks(handle: object) -> None:
    """Never free `handle` in a child of this process: there it is only leaked memory."""
    _HANDLES.add(handle)


def _leak() -> None:
    for handle in _HANDLES:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


os.register_at_fork(after_in_child=_leak)

logger = logging.getLogger(__name__)


class ClientLog:
    """Takes a client's log lines."""

    def log(self, level: int, template: str, *parts: object) -> None:
        """Log a line. The client calls it from within its own calls."""
        del level
        logger.debug(template, *parts)


_CLIENT_BYTES = 4 * (8 + 64) * 1024 * 1024
"""Address space that a client takes while it starts: four threads, each with its stack and its heap (glibc's arena)."""

REQUEST_TIMEOUT_S = 10.0
"""For one attempt of a request to the broker."""

T = TypeVar("T")

# the client's own codes begin with an underscore, and are public all the same
_ALL_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001

GONE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError.UNKNOWN_TOPIC_ID,
    }
)
"""There is no such topic or partition."""

DENIED = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""A log-in that was refused, or a right that is missing."""


class KafkaClient:
    """Shared by all kinds of client: the last error, which librdkafka reports only to a callback."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._last_error: KafkaError | None = None
        outlive_forks(self)

    @property
    def last_error(self) -> str | None:
        """What the client complained about last."""
        return None if self._last_error is None else self._last_error.str()

    def unavailable(self, asked: str, seconds: float) -> PenstockError:
        """Make the error for an answer that did not come; a refused log-in is the user's to mend."""
        last = self._last_error
        if last is not None and last.code() in DENIED:
            return self.denied(last.str())
        return broker_unavailable(self.connection.address, asked, seconds, self.last_error)

    def denied(self, reason: str) -> PenstockError:
        """Make the error for a refused log-in or a missing right."""
        return access_denied(self.connection.address, reason)

    def settings(self) -> dict[str, Any]:
        """Return the connection's settings with references resolved.

        Raises UnknownObjectError, ConfigError for a reference to something missing.
        """
        return {
            key: reveal(value, secret=is_secret(key)) if key in REFERENCES else value
            for key, value in self.connection.settings
        }

    def configuration(self) -> dict[str, Any]:
        """Return the client library's settings, with where it is to complain. Raises as `settings`."""
        return {**self.settings(), "error_cb": self._note, "logger": ClientLog()}

    def _note(self, error: KafkaError) -> None:
        # "all brokers are down" comes right after the reason, and tells less
        if error.code() != _ALL_DOWN or self._last_error is None:
            self._last_error = error

    def make(self, factory: Callable[[dict[str, Any]], T]) -> T:
        """Make a handle of the client library.

        Raises OptionError when it does not take its settings, MemoryError where the process may not have the memory.
        """
        _check_address_space()
        try:
            return factory(self.configuration())
        except KafkaException as error:
            raise OptionError(
                f"the Kafka client does not take its options: {error.args[0].str()}",
                hint="options of the client are written 'properties.<name>' in the table",
            ) from None


def _check_address_space() -> None:
    """Raise MemoryError if the process is close to its limit of address space (spark.executor.pyspark.memory).

    Where librdkafka cannot start one of its threads, it waits for that thread's end for ever, and holds the GIL.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    statm = Path("/proc/self/statm")
    if limit == resource.RLIM_INFINITY or not statm.exists():
        return
    used = int(statm.read_text().split()[0]) * resource.getpagesize()
    if limit - used < _CLIENT_BYTES:
        raise MemoryError(
            f"a Kafka client needs {_CLIENT_BYTES >> 20} MB more, and this Python worker has used {used >> 20} of its "
            f"{limit >> 20} MB; spark.executor.pyspark.memory sets that limit"
        )
