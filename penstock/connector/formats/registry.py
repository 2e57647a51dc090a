"""Finds a format by the name that `format`, `key.format` or `value.format` gives."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from penstock.catalog.errors import OptionError, did_you_mean
from penstock.connector.formats.contract import Format

__all__ = ["find_format", "format_names"]

_BUILT_IN = (
    ("canal-json", "penstock.connector.formats.canal_json:CanalJsonFormat"),
    ("debezium-json", "penstock.connector.formats.debezium_json:DebeziumJsonFormat"),
    ("json", "penstock.connector.formats.json:JsonFormat"),
    ("maxwell-json", "penstock.connector.formats.maxwell_json:MaxwellJsonFormat"),
    ("ogg-json", "penstock.connector.formats.ogg_json:OggJsonFormat"),
    ("raw", "penstock.connector.formats.raw:RawFormat"),
)


def format_names() -> tuple[str, ...]:
    """Give the names of all formats, sorted."""
    return tuple(name for name, _ in _BUILT_IN)


def find_format(name: str, *, option: str = "format") -> Format:
    """Load the format `name`, which the option `option` gave. Raises OptionError."""
    for known, target in _BUILT_IN:
        if known == name:
            module, _, attribute = target.partition(":")
            return cast("Format", getattr(import_module(module), attribute)())
    names = format_names()
    raise OptionError(
        f"there is no format {name!r} (option '{option}'); available are: {', '.join(names)}",
        hint=did_you_mean(name, names),
    )
