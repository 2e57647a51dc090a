"""Flink's answers: calls of built-in functions and what Flink's documentation and tests say they give."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

__all__ = ["Answers", "local"]

Answers = list[tuple[str, Any]]


def local(*parts: int) -> datetime:
    """A time without a zone."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[arg-type,misc]
