"""Statements whose text holds a secret: the value is masked before anything is said of the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache

from penstock.catalog.secret_mask import keep_secret

__all__ = ["keep_stated_secrets", "states_secret"]

_VERBS = ("CREATE", "ALTER")
_ALIKE = 0.75  # by difflib: a letter or two lost, doubled or swapped
_WORDS = re.compile(r"(?<!\w)(?P<verb>\w{4,8})\s+(?P<noun>s\w{4,8})\b", re.IGNORECASE)
_REST = re.compile(r"(?:'(?:[^']|'')*+'|[^;'])*+(?:'[^;]*)?")
_TEXT = re.compile(r"'((?:[^']|'')*+)(?:'|\Z)")


def states_secret(text: str) -> bool:
    """Tell whether a statement says the value of a secret, or was meant to (a slip of the pen)."""
    return any(True for _ in _stated(text))


def keep_stated_secrets(text: str) -> None:
    """Mask the values that CREATE SECRET and ALTER SECRET say in a text, before anything is said of the text."""
    for rest in _stated(text):
        for found in _TEXT.finditer(rest):
            keep_secret(found[1].replace("''", "'"))


def _stated(text: str) -> Iterable[str]:
    """Give what follows the first words of statements that hold a value."""
    for found in _WORDS.finditer(text):
        if _like(found["noun"].upper(), ("SECRET",)) and _like(found["verb"].upper(), _VERBS):
            rest = _REST.match(text, found.end())
            yield "" if rest is None else rest[0]


@lru_cache(maxsize=256)
def _like(word: str, known: tuple[str, ...]) -> bool:
    return any(SequenceMatcher(None, word, each).ratio() >= _ALIKE for each in known)
