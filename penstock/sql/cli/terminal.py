"""Text as a terminal may have it: names of files and partitions, and what errors quote, are somebody else's."""

from __future__ import annotations

import re

__all__ = ["terminal_text"]

# everything but line ends, tabs and colours, which are our own as well
_CONTROLS = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


def terminal_text(text: str) -> str:
    """Write characters that move the cursor, or do worse, as a person can read them."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)
