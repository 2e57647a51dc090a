"""Java's regular expressions, which options of Flink's tables are written in, as Python's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.catalog.errors import OptionError

# the POSIX classes of java.util.regex.Pattern, which are of ASCII
_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Punct": "!-/:-@\\[-`{-~",
    "IsAlphabetic": "a-zA-Z",
    "IsDigit": "0-9",
    "L": "a-zA-Z",
    "Lu": "A-Z",
    "Ll": "a-z",
    "N": "0-9",
    "Nd": "0-9",
}
# one alternative for each thing that Java writes otherwise than Python; everything else is the same
_JAVA_ONLY = re.compile(
    r"\\Q(?P<literal>.*?)(?:\\E|\Z)"
    r"|\\p\{(?P<class_>\w+)\}"
    r"|\(\?<(?P<group>[A-Za-z]\w*)>"
    r"|\\k<(?P<reference>\w+)>"
    r"|(?P<end>\\[zZ])"
    r"|(?P<set>\[)"
    r"|(?P<unset>\])"
    r"|(?P<refused>&&|\\[hHRXGP])"
    r"|\\."
    r"|.",
    re.DOTALL,
)


class _UnusableError(Exception):
    """Why a pattern has no counterpart."""


def java_pattern(pattern: str, *, what: str, hint: str) -> re.Pattern[str]:
    r"""Translate a java.util.regex pattern. `what` names the option in messages.

    Raises OptionError for what has no counterpart (\h, \R, && in a class).
    """
    try:
        return re.compile("".join(_translated(pattern)))
    except (_UnusableError, re.error) as error:
        raise OptionError(
            f"{what} = '{pattern}' is not a usable regular expression: {error}", hint=hint
        ) from None


def _translated(pattern: str) -> Iterator[str]:
    depth = 0
    for token in _JAVA_ONLY.finditer(pattern):
        depth += (token["set"] is not None) - (token["unset"] is not None and depth > 0)
        if depth > 1 or (token["refused"] and (token["refused"] != "&&" or depth)):
            raise _UnusableError(f"'{token[0]}' is not supported here")
        yield _python(token, inside=depth > 0)


def _python(token: re.Match[str], *, inside: bool) -> str:
    if token["literal"] is not None:
        return re.escape(token["literal"])
    if token["class_"] is not None:
        members = _CLASSES.get(token["class_"])
        if members is None:
            raise _UnusableError(f"the class '{token[0]}' is not supported")
        return members if inside else f"[{members}]"
    if token["group"] is not None:
        return f"(?P<{token['group']}>"
    if token["reference"] is not None:
        return f"(?P={token['reference']})"
    return r"\Z" if token["end"] else token[0]
