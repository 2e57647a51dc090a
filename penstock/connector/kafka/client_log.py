"""Where librdkafka's log lines go: to those who look, at level DEBUG, and not to stderr."""

from __future__ import annotations

import logging

__all__ = ["ClientLog"]

logger = logging.getLogger(__name__)


class ClientLog:
    """Takes a client's log lines."""

    def log(self, level: int, template: str, *parts: object) -> None:
        """Pass a line on. The client calls it from within its own calls."""
        del level
        logger.debug(template, *parts)
