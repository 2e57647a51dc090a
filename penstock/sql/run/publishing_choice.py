"""Whether and how a session publishes its catalog to plain Spark SQL: what the argument `publish` says."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock.catalog.errors import ConfigError, did_you_mean
from penstock.sql.run.published_streams import follow_published
from penstock.sql.run.publishing import Published, publish
from penstock.sql.run.spark_entries import is_durable

if TYPE_CHECKING:
    from penstock.sql.run.session import Session

__all__ = ["Publishing", "read_publishing", "start_publishing"]

log = logging.getLogger(__name__)


class Publishing(StrEnum):
    """What is published, and for how long.

    SESSION: everything, `information_schema` too, until the session stops. DURABLE: what others can read too, for
    good; for a Hive metastore.
    OFF: nothing.
    """

    SESSION = "session"
    DURABLE = "durable"
    OFF = "off"


def read_publishing(text: str | None) -> Publishing | None:
    """Read the argument `publish`. Raises ConfigError."""
    if text is None:
        return None
    try:
        return Publishing(text)
    except ValueError:
        known = [choice.value for choice in Publishing]
        raise ConfigError(
            f"publish = {text!r}: it is one of {', '.join(map(repr, known))}",
            hint=did_you_mean(text, known),
        ) from None


def start_publishing(session: Session, choice: Publishing | None) -> Published | None:
    """Publish as asked; without a choice for the session, but not into a metastore that others share.

    There, names would come and go before everybody's eyes, for tables that only this process can read.
    """
    if choice is None and is_durable(session.spark):
        log.info(
            "this Spark keeps its catalog in a Hive metastore, so spark.sql does not see Penstock's tables; "
            "penstock.connect(spark, publish='session') shows them there until the session stops, "
            "publish='durable' shows Delta tables for good"
        )
        return None
    if choice is Publishing.OFF:
        return None
    # nine more tables for each session: for those that ask
    information = choice is Publishing.SESSION
    published = publish(session, durable=choice is Publishing.DURABLE, information=information)
    follow_published(session, published)
    return published
