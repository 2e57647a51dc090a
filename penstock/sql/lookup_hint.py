"""The options of the hint LOOKUP: those that say how Flink is to ask, which mean nothing here, and asking again.

Flink: LookupJoinHintOptions, and the checks of FlinkHintStrategies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.catalog.errors import OptionError
from penstock.catalog.options import (
    BOOLEAN,
    DURATION,
    INT,
    STRING,
    Option,
    enum_type,
    optional,
    resolve,
)
from penstock.connector.lookup import MissRetry

__all__ = ["LOOKUP", "TABLE", "LookupOptions", "lookup_options"]

LOOKUP = "LOOKUP"
TABLE = "table"

_TABLE = Option(
    key=TABLE, type=STRING, default="", doc="The table that is looked up.", required=True
)
_ASYNC = optional(BOOLEAN, "async", "Whether keys are asked for while others are waited for.")
_CAPACITY = optional(INT, "capacity", "How many keys are asked for at the same time.")
_PREDICATE = optional(STRING, "retry-predicate", "When to ask again: lookup_miss.")
_STRATEGY = optional(enum_type("fixed_delay"), "retry-strategy", "How to wait: fixed_delay.")
_DELAY = optional(DURATION, "fixed-delay", "How long to wait before asking again.")
_ATTEMPTS = optional(INT, "max-attempts", "How often to ask again.")
_RETRY = (_PREDICATE, _STRATEGY, _DELAY, _ATTEMPTS)
_OPTIONS = (
    _TABLE,
    _ASYNC,
    optional(enum_type("ordered", "allow_unordered"), "output-mode", "Whether rows stay in order."),
    _CAPACITY,
    optional(DURATION, "timeout", "How long the answer for a key may take."),
    optional(BOOLEAN, "shuffle", "Whether rows of one key come to one task."),
    *_RETRY,
)
MISS = "lookup_miss"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """What a hint LOOKUP says: the table's name in the query, and how to ask again for keys without rows."""

    table: str
    retry: MissRetry | None = None


def lookup_options(pairs: Mapping[str, str]) -> LookupOptions:
    """Check the options of a hint. Raises OptionError for what Flink refuses."""
    owner = f"the hint {LOOKUP}"
    words = {key: text.replace("-", "_") if key in _WORDS else text for key, text in pairs.items()}
    options = resolve(words, _OPTIONS, owner=owner)
    if options.get(_ASYNC):
        options.at_least_one(_CAPACITY, owner=owner)
    table = options.get(_TABLE)
    given = [option.key for option in _RETRY if options.is_set(option)]
    if not given:
        return LookupOptions(table=table)
    missing = [option.key for option in _RETRY if not options.is_set(option)]
    if missing:
        raise OptionError(
            f"{owner}: '{given[0]}' needs {', '.join(repr(key) for key in missing)} too",
            hint="asking again takes all four: 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', "
            "'fixed-delay' = '10 s', 'max-attempts' = '3'",
        )
    predicate = options.get(_PREDICATE)
    if predicate.lower() != MISS:
        raise OptionError(
            f"{owner}: option 'retry-predicate' = '{predicate}' is not '{MISS}'",
            hint="keys are asked for again where no row has them",
        )
    attempts = options.at_least_one(_ATTEMPTS, owner=owner)
    return LookupOptions(
        table=table, retry=MissRetry(delay_ms=options.get(_DELAY), attempts=attempts)
    )


_WORDS = (_STRATEGY.key, "output-mode")
"""Options whose value Flink reads in any case, with - for _ too."""
