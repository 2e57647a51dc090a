"""The options of built-in connectors, for those who compare definitions: what a value means, and what is a default."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, cast

from penstock.catalog.options import Option, PrefixOption
from penstock.connector.bad_record_options import BAD_RECORD_OPTIONS
from penstock.connector.watermark_options import WATERMARK_OPTIONS

__all__ = ["options_of"]

_OPTIONS = {
    "blackhole": "penstock.connector.blackhole:OPTIONS",
    "datagen": "penstock.connector.datagen.settings:OPTIONS",
    "delta": "penstock.connector.delta.options:OPTIONS",
    "filesystem": "penstock.connector.filesystem.options:OPTIONS",
    "jdbc": "penstock.connector.jdbc.options:OPTIONS",
    "kafka": "penstock.connector.kafka.options:OPTIONS",
    "memory": "penstock.connector.memory.connector:OPTIONS",
    "print": "penstock.connector.printing.connector:OPTIONS",
    "upsert-kafka": "penstock.connector.kafka.options:UPSERT_OPTIONS",
}
_READ_BY_SPLITS = ("filesystem", "kafka", "upsert-kafka")
"""Connectors that take the options of watermarks and bad records beside their own."""


@cache
def options_of(connector: str | None) -> Sequence[Option[Any] | PrefixOption]:
    """Give the options of a connector; none for one of another package, whose values are compared as text."""
    module, _, name = _OPTIONS.get(connector or "", "").partition(":")
    if not module:
        return ()
    own = cast("Sequence[Option[Any] | PrefixOption]", getattr(import_module(module), name))
    shared = (*WATERMARK_OPTIONS, *BAD_RECORD_OPTIONS) if connector in _READ_BY_SPLITS else ()
    return (*own, *shared)
