"""Which options hold secrets, by their keys and inside their values, and how they are shown without them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

from penstock.catalog.references import holds_only_references, shown_references
from penstock.catalog.secret_mask import REDACTED

__all__ = ["is_secret", "redact"]

# Flink's GlobalConfiguration list, and what Kafka clients and cloud file systems add to it
_SECRET = re.compile(
    r"passw|passphrase|secret|token$|credential|api[._-]?key|access[._-]?key|private[._-]?key|"
    r"account\.key|jaas|basic-auth|auth-params|user-info|http-headers|authorization|service-key|"
    r"\.pem$|ssl\.keystore\.key$|ssl\.key$",
    re.IGNORECASE,
)
_WORDS = ("password", "passphrase", "secret", "apikey", "credentials", "jaas")
_ALIKE = 0.8  # by difflib: one letter lost, doubled or swapped
# in a value under any key: user:password@ and ?password= of URLs, password="..." of JAAS, private keys
_VALUE = re.compile(
    r"(?<=://)[^/@\s]*:[^/@\s]+(?=@)"
    r"|(?<=[?&;])(?:password|token|sig|secret|key)=[^&;\s]+"
    r"|\b(?:password|secret)\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s;]+)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.IGNORECASE | re.DOTALL,
)


@lru_cache(maxsize=4096)
def is_secret(key: str) -> bool:
    """Tell whether an option's value must not be shown: its key names a secret, or nearly (a slip of the pen)."""
    if _SECRET.search(key) is not None:
        return True
    words = re.split(r"[._-]", key.lower())
    near = {*words, *("".join(pair) for pair in pairwise(words))}
    return any(SequenceMatcher(None, a, b).ratio() >= _ALIKE for a in near for b in _WORDS)


def redact(options: Mapping[str, str]) -> dict[str, str]:
    """Give the options with secret values as ******, and secrets inside other values (URLs, JAAS, PEM) too.

    References tell nothing and are shown, where there is nothing beside them.
    """
    return {key: _redacted(key, shown_references(value)) for key, value in options.items()}


def _redacted(key: str, value: str) -> str:
    if holds_only_references(value):
        return value
    return REDACTED if is_secret(key) else _VALUE.sub(REDACTED, value)
