"""A refusal as a value: why an operator of a query cannot run, and where it stands.

Checks give refusals, and whoever knows all ways to run the query raises one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.catalog.errors import Span, UnsupportedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an operator cannot run: the message, what to do instead, and its place in the text."""

    message: str
    hint: str | None = None
    span: Span | None = None

    def error(self) -> UnsupportedError:
        """Return the refusal as the error that the user sees."""
        return UnsupportedError(self.message, hint=self.hint, span=self.span)
