"""What a client is told of an error: what is wrong, without the stacks of Python and Java and their files."""

from __future__ import annotations

import re

from penstock.catalog.errors import decode_failure

__all__ = ["client_text"]

MAX_LENGTH = 4000
"""Characters of a message."""

_TRACEBACK = re.compile(r"^\s*(?:\w+\. )?Traceback \(most recent call last\):[ ]*$")
_JAVA = re.compile(r"^\s*(at [\w.$/<>]+\(.*\)|\.\.\. \d+ (more|common frames omitted))\s*$")


def client_text(text: str) -> str:
    """Shorten an error's text. One of Penstock's own is told by its message and hint."""
    own = decode_failure(text)
    if own is not None:
        return f"{own.message}; {own.hint}" if own.hint else own.message
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        if _TRACEBACK.match(line):
            inside = True
        elif inside and (line.startswith(" ") or not line.strip()):
            continue  # frames and the lines of code that they show
        elif not _JAVA.match(line):
            inside = False
            kept.append(line)
    return "\n".join(kept)[:MAX_LENGTH]
