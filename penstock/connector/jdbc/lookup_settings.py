"""The options of lookups in a jdbc table as one checked value: the cache, and how often to ask again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.catalog.errors import OptionError
from penstock.catalog.options import Option, Resolved, resolve
from penstock.catalog.table import Table
from penstock.connector.jdbc import options as o
from penstock.connector.lookup import CacheLimits

__all__ = ["LookupSettings", "read_lookup_settings"]

PARTIAL = "PARTIAL"
_LIMITS: tuple[Option[int | None], ...] = (
    o.LOOKUP_MAX_ROWS,
    o.LOOKUP_AFTER_WRITE,
    o.LOOKUP_AFTER_ACCESS,
)
_OF_CACHE: tuple[Option[Any], ...] = (*_LIMITS, o.LOOKUP_MISSING)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupSettings:
    """How rows are looked up: `cache` is None where none are remembered, rows are asked for `retries` times more."""

    cache: CacheLimits | None = None
    retries: int = 0

    @property
    def shown(self) -> str:
        """The cache in words."""
        if self.cache is None:
            return "none"
        limits = self.cache
        bounds = [] if limits.max_rows is None else [f"at most {limits.max_rows} rows"]
        if limits.after_write_ms is not None:
            bounds.append(f"for {limits.after_write_ms / 1000:g} s after they were read")
        if limits.after_access_ms is not None:
            bounds.append(f"for {limits.after_access_ms / 1000:g} s after they were used")
        bounds += [] if limits.missing else ["keys without rows not"]
        return f"{PARTIAL}, in each worker process: {', '.join(bounds)}"


def read_lookup_settings(table: Table) -> LookupSettings:
    """Check the options of lookups, without I/O. Raises OptionError."""
    owner = f"table {table.identifier}"
    options = resolve(table.option_map, o.OPTIONS, owner=owner)
    retries = options.get(o.LOOKUP_RETRIES)
    if retries < 0:
        raise OptionError(
            f"{owner}: option '{o.LOOKUP_RETRIES.key}' = '{retries}' cannot be less than 0"
        )
    return LookupSettings(cache=_cache(options, owner), retries=retries)


def _cache(options: Resolved, owner: str) -> CacheLimits | None:
    given = [option.key for option in _OF_CACHE if options.is_set(option)]
    if options.get(o.LOOKUP_CACHE) != PARTIAL:
        if given:
            # Flink passes over it
            raise OptionError(
                f"{owner}: option '{given[0]}' is of a cache, and there is none",
                hint=f"add '{o.LOOKUP_CACHE.key}' = '{PARTIAL}', or leave it out",
            )
        return None
    if not any(options.is_set(option) for option in _LIMITS):
        # as Flink does (DefaultLookupCache.fromConfig)
        raise OptionError(
            f"{owner}: option '{o.LOOKUP_CACHE.key}' = '{PARTIAL}' has no limit, and would grow without end",
            hint=f"add one of {', '.join(option.key for option in _LIMITS)}",
        )
    return CacheLimits(
        max_rows=options.at_least_one(o.LOOKUP_MAX_ROWS, owner=owner),
        after_write_ms=options.at_least_one(o.LOOKUP_AFTER_WRITE, owner=owner),
        after_access_ms=options.at_least_one(o.LOOKUP_AFTER_ACCESS, owner=owner),
        missing=options.get(o.LOOKUP_MISSING),
    )
