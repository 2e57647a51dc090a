"""Translate options of WITH that older releases of Flink used: `connector.type`, `format.type`, ...

Flink's descriptors up to release 1.10, and single keys that were renamed since. Values keep their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

CONNECTOR = "connector."
FORMAT = "format."
_RENAMED: Mapping[str, str] = {
    "connector.type": "connector",
    "connector.startup-mode": "scan.startup.mode",
    "connector.specific-offsets": "scan.startup.specific-offsets",
    "connector.startup-timestamp-millis": "scan.startup.timestamp-millis",
    "connector.table": "table-name",
    "connector.read.partition.column": "scan.partition.column",
    "connector.read.partition.num": "scan.partition.num",
    "connector.read.partition.lower-bound": "scan.partition.lower-bound",
    "connector.read.partition.upper-bound": "scan.partition.upper-bound",
    "connector.read.fetch-size": "scan.fetch-size",
    "connector.write.flush.max-rows": "sink.buffer-flush.max-rows",
    "connector.write.flush.interval": "sink.buffer-flush.interval",
    "connector.write.max-retries": "sink.max-retries",
    "connector.sink-partitioner": "sink.partitioner",
    "connector.lookup.cache.max-rows": "lookup.partial-cache.max-rows",
    "connector.lookup.cache.ttl": "lookup.partial-cache.expire-after-write",
    "lookup.cache.max-rows": "lookup.partial-cache.max-rows",
    "lookup.cache.ttl": "lookup.partial-cache.expire-after-write",
    "lookup.cache.caching-missing-key": "lookup.partial-cache.cache-missing-key",
}
_MEANINGLESS = frozenset(
    {
        "connector.version",
        "connector.property-version",
        "format.property-version",
        "property-version",
        "format.derive-schema",
        "format.schema",
        "format.json-schema",
        "update-mode",
        "connector.properties.zookeeper.connect",
        "properties.zookeeper.connect",
    }
)
"""Options without effect: the table's columns are the schema, its PRIMARY KEY distinguishes appends and upserts, and
clients of Kafka have not talked to ZooKeeper for years.
"""
_DISCOVERY = "scan.topic-partition-discovery.interval"
_DISCOVERY_MS = frozenset(
    {
        "properties.flink.partition-discovery.interval-millis",
        "properties.partition.discovery.interval.ms",
    }
)
_PAIR = re.compile(r"connector\.properties\.(\d+)\.(key|value)")
_OFFSET = re.compile(r"connector\.specific-offsets\.(\d+)\.(partition|offset)")
_FIELD = re.compile(r"format\.fields\.\d+\.(name|type|data-type|schema)")
"""The columns once more, as descriptors of CSV had them."""
_Take = Callable[[str, str, str], None]
_CACHED = {"lookup.partial-cache.max-rows", "lookup.partial-cache.expire-after-write"}


def older_keys(key: str) -> tuple[str, ...]:
    """Return the keys that older releases of Flink had for an option; not those that only lost `connector.`."""
    old = [written for written, today in _RENAMED.items() if today == key]
    return tuple(sorted([*old, *(_DISCOVERY_MS if key == _DISCOVERY else ())]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedOptions:
    """Options in today's words. `sources` are the keys that changed ones were written as, `dropped` what is gone."""

    options: Mapping[str, str]
    sources: Mapping[str, str]
    dropped: tuple[str, ...]

    @property
    def note(self) -> str | None:
        """What was read as what, in a line; None where nothing was."""
        parts = [f"'{old}' as '{new}'" for new, old in self.sources.items()]
        parts = [f"read as today's: {', '.join(parts)}"] if parts else []
        if self.dropped:
            parts.append(f"left out, as they say nothing now: {', '.join(map(repr, self.dropped))}")
        return f"options of older releases of Flink are {'; '.join(parts)}" if parts else None


def translate_legacy_options(options: Mapping[str, str]) -> TranslatedOptions:
    """Return the options of a table in today's words; where both are there, today's count."""
    is_old = CONNECTOR + "type" in options
    kind = options.get(FORMAT + "type", "") if is_old else ""
    found: dict[str, str] = {}
    sources: dict[str, str] = {}
    dropped: list[str] = []

    def take(key: str, value: str, source: str) -> None:
        if key != source:
            if key in options or key in found:
                return
            sources[key] = source
        found[key] = value

    for key, value in options.items():
        if key in _MEANINGLESS or (is_old and _FIELD.fullmatch(key)):
            dropped.append(key)
        elif key in _DISCOVERY_MS and value.strip().isdigit():
            take(_DISCOVERY, f"{value.strip()} ms", key)
        elif key in _RENAMED:
            take(_RENAMED[key], value, key)
        elif is_old and _PAIR.fullmatch(key):
            _take_pair(key, options, take, dropped)
        elif is_old and _OFFSET.fullmatch(key):
            take("scan.startup.specific-offsets", _offsets(options), key)
        elif is_old and key.startswith(CONNECTOR):
            take(key.removeprefix(CONNECTOR), value, key)
        elif is_old and key.startswith(FORMAT):
            own = key.removeprefix(FORMAT)
            take("format" if own == "type" else f"{kind}.{own}", value, key)
        else:
            take(key, value, key)
    if _CACHED & sources.keys() and "lookup.cache" not in found:
        found["lookup.cache"] = "PARTIAL"
    return TranslatedOptions(options=found, sources=sources, dropped=tuple(dropped))


def _take_pair(key: str, options: Mapping[str, str], take: _Take, dropped: list[str]) -> None:
    """Translate `connector.properties.0.key` and its value to one option of the client."""
    match = _PAIR.fullmatch(key)
    assert match is not None, "it was asked"
    if match[2] == "value":
        return
    name = f"properties.{options[key]}"
    value = options.get(f"connector.properties.{match[1]}.value", "")
    if name in _MEANINGLESS:
        dropped.append(key)
    else:
        take(name, value, key)


def _offsets(options: Mapping[str, str]) -> str:
    """Join the offsets of `connector.specific-offsets.0.partition` and `.offset` into today's one text."""
    found: dict[str, dict[str, str]] = {}
    for key, value in options.items():
        if match := _OFFSET.fullmatch(key):
            found.setdefault(match[1], {})[match[2]] = value
    return ";".join(
        f"partition:{one.get('partition', '')},offset:{one.get('offset', '')}"
        for _, one in sorted(found.items(), key=lambda item: int(item[0]))
    )
