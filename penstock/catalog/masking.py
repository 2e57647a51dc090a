"""Masking of secrets in output: the values that this process must not show, and their masking.

Values come from `{{ secret('...') }}` of templates, from CREATE SECRET and from references
(`catalog/options/references.py`). Messages, logs, plans and status pass through `without_secrets`; rows of tables do
not, they are data. Each process knows the values that it has seen itself: one that sends text to another process masks
it first.
"""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any
from urllib.parse import quote, quote_plus

REDACTED = "******"
SHORTEST = 3
"""Shorter values are not masked: masking every `a` makes a log unreadable (dbt-core#5312)."""

DEEPEST_CAUSE = 20
"""Bound of a chain of causes; a longer one is a cycle."""

_values: set[str] = set()


def keep_secret(value: str) -> None:
    """Mask a value in all later output, as a whole and line by line; in logs too, of any library."""
    for part in (value, *value.splitlines()):
        if len(part.strip()) >= SHORTEST:
            _values.update(_spellings(part))
    if _values and logging.getLogRecordFactory() is not _scrubbed:
        _follow_factory()


def kept_secrets() -> frozenset[str]:
    """Return what is masked here: for a parent process, which has to mask it too."""
    return frozenset(_values)


def forget_secrets() -> None:
    """Forget what is masked, in a child process that reports to its parent what it has seen itself."""
    _values.clear()


def without_secrets(text: str, *, same_length: bool = False) -> str:
    """Return a text with secrets as asterisks: six, or with `same_length` as many as there were characters."""
    for value in sorted(_values, key=len, reverse=True):
        if value in text:
            text = text.replace(value, _stars(value) if same_length else REDACTED)
    return text


def masked(document: Any) -> Any:
    """Return plain values (of a JSON document) with the secrets in their texts masked; keys and numbers stay."""
    match document:
        case str():
            return without_secrets(document)
        case dict():
            return {key: masked(value) for key, value in document.items()}
        case list() | tuple():
            return [masked(value) for value in document]
    return document


def mask_error(error: BaseException) -> None:
    """Mask the texts of an error and of its causes, for a report that other code makes of them."""
    layer: BaseException | None = error
    for _ in range(DEEPEST_CAUSE):
        if layer is None or not _values:
            return
        text = str(layer)
        if (safe := without_secrets(text)) != text:
            layer.args = (safe,)
        layer = layer.__cause__ or layer.__context__


def _spellings(part: str) -> set[str]:
    """Return how a value is written in SQL, JSON, Python and URLs."""
    return {
        part,
        part.replace("'", "''"),
        json.dumps(part)[1:-1],
        json.dumps(part, ensure_ascii=False)[1:-1],
        repr(part)[1:-1],
        quote(part, safe=""),
        quote(part),
        quote_plus(part),
    }


def _stars(value: str) -> str:
    return "".join(char if char == "\n" else "*" for char in value)


# --- logs ---

_before = logging.getLogRecordFactory()


class _ScrubbedRecord(logging.LogRecord):
    """A log record whose text is masked when it is written: a logger's own filters would miss its children's."""

    def getMessage(self) -> str:  # noqa: N802  logging's name
        """Return the text, masked."""
        return without_secrets(super().getMessage())


def _scrubbed(*args: Any, **kwargs: Any) -> logging.LogRecord:
    """Make a log record (`logging.setLogRecordFactory`)."""
    record = _before(*args, **kwargs)
    if type(record) is logging.LogRecord:
        record.__class__ = _ScrubbedRecord
    else:  # somebody else's kind of record, which is not to lose what it can do
        record.msg, record.args = without_secrets(record.getMessage()), None
    if record.exc_info and record.exc_info[1] is not None:
        # formatters take this text where it is there
        record.exc_text = without_secrets(
            "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        )
    return record


def _follow_factory() -> None:
    """Wrap the factory that is in place; nothing changes in programs that have no secrets."""
    global _before  # noqa: PLW0603  there is one factory in a process
    _before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(_scrubbed)
