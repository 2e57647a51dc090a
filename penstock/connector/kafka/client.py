"""What all connections to Kafka share: settings, the last error, which codes mean what. Speaks in plain values.

Knows calls and codes, nothing of tables. No handle is made at import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message

from penstock.catalog.errors import OptionError, PenstockError
from penstock.catalog.redaction import is_secret
from penstock.catalog.references import reveal
from penstock.connector.kafka.client_log import ClientLog
from penstock.connector.kafka.client_properties import REFERENCES
from penstock.connector.kafka.connection import Connection
from penstock.connector.kafka.failures import access_denied, broker_unavailable
from penstock.connector.kafka.fork import outlive_forks

__all__ = ["DENIED", "GONE", "REQUEST_TIMEOUT_S", "KafkaClient", "Message"]

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
    """What all kinds of client share: the last error, which librdkafka tells a callback alone."""

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
        """Give the connection's settings with values in the place of references.

        Raises UnknownObjectError, ConfigError for what a reference names and is not there.
        """
        return {
            key: reveal(value, secret=is_secret(key)) if key in REFERENCES else value
            for key, value in self.connection.settings
        }

    def configuration(self) -> dict[str, Any]:
        """Give the client library's settings, with where it is to complain. Raises as `settings`."""
        return {**self.settings(), "error_cb": self._note, "logger": ClientLog()}

    def _note(self, error: KafkaError) -> None:
        # "all brokers are down" comes right after the reason, and tells less
        if error.code() != _ALL_DOWN or self._last_error is None:
            self._last_error = error

    def make(self, factory: Callable[[dict[str, Any]], T]) -> T:
        """Make a handle of the client library. Raises OptionError when it does not take its settings."""
        try:
            return factory(self.configuration())
        except KafkaException as error:
            raise OptionError(
                f"the Kafka client does not take its options: {error.args[0].str()}",
                hint="options of the client are written 'properties.<name>' in the table",
            ) from None
