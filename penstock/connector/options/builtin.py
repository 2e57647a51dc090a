"""The options of built-in connectors with their defaults, for comparing definitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, cast

from penstock.catalog.options.option import Option, PrefixOption
from penstock.connector.options.bad_records import BAD_RECORD_OPTIONS
from penstock.connector.options.watermark import WATERMARK_OPTIONS

__all__ = ["options_of"]

_OPTIONS = {
    "blackhole": "penstock.connector.print.blackhole:OPTIONS",
    "datagen": "penstock.connector.datagen.settings:OPTIONS",
    "delta": "penstock.connector.delta.options:OPTIONS",
    "filesystem": "penstock.connector.filesystem.table.options:OPTIONS",
    "jdbc": "penstock.connector.jdbc.options:OPTIONS",
    "kafka": "penstock.connector.kafka.table.options:OPTIONS",
    "memory": "penstock.connector.memory.connector:OPTIONS",
    "print": "penstock.connector.print.connector:OPTIONS",
    "upsert-kafka": "penstock.connector.kafka.table.options:UPSERT_OPTIONS",
}
_READ_BY_SPLITS = ("filesystem", "kafka", "upsert-kafka")
"""Connectors that take the options of watermarks and bad records beside their own."""


@cache
def options_of(connector: str | None) -> Sequence[Option[Any] | PrefixOption]:
    """Return the options of a connector; none for one of another package, whose values are compared as text."""
    module, _, name = _OPTIONS.get(connector or "", "").partition(":")
    if not module:
        return ()
    own = cast("Sequence[Option[Any] | PrefixOption]", getattr(import_module(module), name))
    shared = (*WATERMARK_OPTIONS, *BAD_RECORD_OPTIONS) if connector in _READ_BY_SPLITS else ()
    return (*own, *shared)
