"""How dead letters are counted, with an engine and without."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KIND", "PLACE", "LetterCount"]

PLACE = ("topic", "partition", "offset")
"""Columns that say which record of Kafka a letter is of."""

# "field 'id': not a BIGINT: ..." and "it is not valid JSON: ...": what comes behind is different for each record
KIND = r"^((?:field '[^']*': )?[^:]*)"
"""The part of an error that many letters share, as a group of a regular expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCount:
    """Dead letters of one table, stage and kind of error. `replayed` of them were given back."""

    table: str
    pipeline: str
    stage: str
    error: str
    letters: int
    replayed: int
