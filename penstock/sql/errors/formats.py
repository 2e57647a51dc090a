"""How errors are reported to programs: a line each, one JSON document, or GitHub's annotations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, assert_never

from penstock.catalog.errors import PenstockError
from penstock.catalog.masking import without_secrets
from penstock.sql.errors.render import Severity, each_of, plain_text, position_text, render

__all__ = ["ErrorFormat", "error_document", "show_error", "show_failures"]

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


class ErrorFormat(StrEnum):
    """The shape of errors: `full` for a person, `concise` a line each, `json`, `github` for Actions."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    GITHUB = "github"


def show_failures(failures: Sequence[PenstockError], shape: ErrorFormat) -> str | None:
    """Write the failures of a run, for a program: one text for all; None for a person, who reads the summary."""
    found = [each for failure in failures for each in each_of(failure)]
    if not found or shape is ErrorFormat.FULL:
        return None
    if shape is ErrorFormat.JSON:
        document = {"errors": [_values(each) for each in found]}
        return json.dumps(document, indent=2, ensure_ascii=False)
    return "\n".join(show_error(each, shape) for each in found)


def show_error(
    error: PenstockError,
    shape: ErrorFormat,
    *,
    color: bool = False,
    severity: Severity = Severity.ERROR,
) -> str:
    """Write an error or a warning, or each of several, without a newline at the end. Secrets are masked."""
    match shape:
        case ErrorFormat.FULL:
            return render(error, color=color, severity=severity).rstrip()
        case ErrorFormat.CONCISE:
            return "\n".join(_concise(each, severity) for each in each_of(error))
        case ErrorFormat.JSON:
            document = {f"{severity}s": error_document(error)}
            return json.dumps(document, indent=2, ensure_ascii=False)
        case ErrorFormat.GITHUB:
            return "\n".join(_github(each, severity) for each in each_of(error))
    assert_never(shape)


def error_document(error: PenstockError) -> list[dict[str, Any]]:
    """Return an error, or each of several, as plain values. Lines and columns count from 1, `end_column` is exclusive.

    A column is one of the rendered text, which is the file's own where there is no template.
    """
    return [_values(each) for each in each_of(error)]


def _values(error: PenstockError) -> dict[str, Any]:
    span = error.span
    return {
        "code": error.code,
        "message": without_secrets(error.message),
        "hint": without_secrets(error.hint) if error.hint else None,
        "file": span.file if span else None,
        "line": span.line if span else None,
        "column": span.column if span else None,
        "end_column": span.column + span.length if span else None,
        "called_from": list(span.called_from) if span else [],
    }


def _concise(error: PenstockError, severity: Severity = Severity.ERROR) -> str:
    word = "warning " if severity is Severity.WARNING else ""
    place = f"{position_text(error.span)}: " if error.span else ""
    hint = f" ({error.hint})" if error.hint else ""
    line = f"{place}{word}{error.code} {error.message}{hint}".replace("\n", " ")
    return plain_text(line)


def _github(error: PenstockError, severity: Severity = Severity.ERROR) -> str:
    """Write a workflow command of GitHub Actions."""
    span = error.span
    fields = {"title": error.code}
    if span is not None:
        fields = {"file": span.file, "line": str(span.line)} | fields
        if span.template_text is None:
            fields |= {"col": str(span.column), "endColumn": str(span.column + span.length)}
    shown = ",".join(f"{key}={_escaped(value, _PROPERTY)}" for key, value in fields.items())
    text = error.message if not error.hint else f"{error.message}\nhelp: {error.hint}"
    return f"::{severity} {shown}::{_escaped(plain_text(text), _DATA)}"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(char, char) for char in text)
