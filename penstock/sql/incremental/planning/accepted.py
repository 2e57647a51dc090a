"""Raise what a reader of clauses refuses."""

from __future__ import annotations

from typing import TypeVar

from penstock.sql.syntax.refusal import Refusal

__all__ = ["accepted"]

Read = TypeVar("Read")


def accepted(read: Read | Refusal) -> Read:
    """Return what was read. Raises UnsupportedError for a refusal."""
    if isinstance(read, Refusal):
        raise read.error()
    return read
