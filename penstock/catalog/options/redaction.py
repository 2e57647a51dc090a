"""Which options hold secrets, by their keys and inside their values, and how they are shown without them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

from penstock.catalog.masking import REDACTED
from penstock.catalog.options.references import (
    holds_only_references,
    holds_reference,
    shown_references,
)

# Flink's GlobalConfiguration list, and what Kafka clients and cloud file systems add to it
_SECRET = re.compile(
    r"passw|passphrase|secret|token$|credential|api[._-]?key|access[._-]?key|private[._-]?key|"
    r"account\.key|jaas|basic-auth|auth-params|user-info|http-headers|authorization|service-key|"
    r"oauthbearer\.(?:extensions|config|assertion)|\.pem$|ssl\.keystore\.key$|ssl\.key$",
    re.IGNORECASE,
)
_LOCATION_ENDINGS = (".location", ".file", ".path", ".url", ".endpoint")
"""Ends of keys whose values are places, whatever else they name."""
_WORDS = ("password", "passphrase", "secret", "apikey", "credentials", "jaas")
_ALIKE = 0.8  # by difflib: one letter lost, doubled or swapped
# names of secrets inside values: in URLs, connection strings, JAAS, JSON and YAML
_NAME = (
    r"(?:[\w.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|signature|credentials?"
    r"|(?:secret|access|api|private|account|shared|client|sas)[_.-]?(?:access[_.-]?)?key(?:[_.-]?id)?))"
)
_VALUE = re.compile(
    rf"(?<=[?&;#])(?:{_NAME}|sig|key|auth|pass)=[^&;\s]+"
    rf"|(?<![\w.-])[\"']?{_NAME}[\"']?\s*[=:]\s*(?:\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|[^\s;,&{{}}]+)"
    r"|(?:\bBearer|\bBasic)\s+[\w.~+/=-]{6,}"
    # from the begin of the word on, so that it is read once
    r"|(?<![\w-])(?>[\w-]*?\beyJ)[\w-]++\.[\w-]++\.[\w-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.IGNORECASE | re.DOTALL,
)
# user: of user:password@ in URLs. A number is a port where a path and a query come behind it; not behind s3://, whose
# keys have slashes in them
_LOGIN = re.compile(
    r"(?:(?<=s3)|(?<=s3[an]))://[^/@\s:]*+:|://[^/@\s:]*+:(?!\d{1,5}/[^@\s?:]*+\?)", re.IGNORECASE
)
_REFERENCE = re.compile(r"[=:]?(?<!\s)\s*+[\"']?\$\{[^}]*\}[\"']?")
_SCHEME_END = len("://")
_PASSWORD_END = re.compile(r"[\s'\"]|\Z")


@lru_cache(maxsize=4096)
def is_secret(key: str) -> bool:
    """Return whether an option's value must not be shown: its key names a secret, or nearly (a typo)."""
    if _SECRET.search(key) is not None:
        return True
    words = re.split(r"[._-]", key.lower())
    near = {*words, *("".join(pair) for pair in pairwise(words))}
    return any(SequenceMatcher(None, a, b).ratio() >= _ALIKE for a in near for b in _WORDS)


def redact(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with secret values as ******, and secrets inside other values (URLs, JAAS, PEM) too.

    References tell nothing and are shown, where there is nothing beside them.
    """
    return {key: _redacted(key, shown_references(value)) for key, value in options.items()}


def literal_secrets(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of options whose value is a secret, or has one in it, that stands there itself."""
    return tuple(
        key
        for key, value in options.items()
        if value
        and not holds_only_references(value)
        and (
            (is_secret(key) and not holds_reference(value) and not key.endswith(_LOCATION_ENDINGS))
            or _holds_secret(_without_references(value))
        )
    )


def _without_references(value: str) -> str:
    """Leave the references out, and what a reference stands behind as its value."""
    end = value.rfind("}") + 1
    return _REFERENCE.sub("", value[:end]) + value[end:]


def _holds_secret(value: str) -> bool:
    return _VALUE.search(value) is not None or _without_logins(value) != value


def _redacted(key: str, value: str) -> str:
    if holds_only_references(value):
        return value
    return REDACTED if is_secret(key) else _VALUE.sub(REDACTED, _without_logins(value))


def _without_logins(value: str) -> str:
    """Mask user:password@ of URLs, the password with any character in it, up to the last @ of its word.

    No expression does that in one pass: it would read the rest of a word again from each :// on.
    """
    parts: list[str] = []
    at = read_to = 0
    for login in _LOGIN.finditer(value):
        begin = login.end()
        if begin < read_to:
            continue
        read_to = _end_of_word(value, begin)
        last = value.rfind("@", begin + 1, read_to)
        if last >= 0:
            parts += value[at : login.start() + _SCHEME_END], REDACTED
            at = last
    return "".join((*parts, value[at:]))


def _end_of_word(value: str, begin: int) -> int:
    found = _PASSWORD_END.search(value, begin)
    assert found is not None, "every text ends"
    return found.start()
