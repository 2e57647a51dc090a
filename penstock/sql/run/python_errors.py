"""How errors reach a Python program: the place and the hint stand below the message in its traceback.

Used by the functions that programs call: `connect`, the methods of `Session` and `Job`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from penstock.catalog.errors import InputError, PenstockError
from penstock.sql.errors import each_of, render

__all__ = ["errors_explained"]

P = ParamSpec("P")
T = TypeVar("T")


def errors_explained(call: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that its errors carry a note (PEP 678's `__notes__`) with their place and hint.

    An InputError is about what was given, so its traceback ends at the call; others keep theirs.
    """

    @wraps(call)
    def explained(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except PenstockError as error:
            note = _note(error)
            if note and note not in getattr(error, "__notes__", ()):
                error.add_note(note)
            if isinstance(error, InputError):
                raise error.with_traceback(None) from error.__cause__
            raise

    return explained


def _note(error: PenstockError) -> str:
    """Write what the message leaves out: for one error the lines below it, for several all of them."""
    lines = render(error).splitlines()
    if len(each_of(error)) > 1:
        return "\n".join(lines)
    return "\n".join(lines[len(error.message.splitlines()) or 1 :])
