"""docs/options.md: the options of connectors, formats, catalogs and SET, written from their descriptors.

What the page says of an option is in its `Option`, of a metadata column in its `MetadataKey`; here is only how it is
laid out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.catalog.model.namespaces import catalog_options, catalog_types
from penstock.catalog.model.types import LogicalType
from penstock.catalog.options.option import DURATION, MEMORY, Option, OptionScope, PrefixOption
from penstock.connector.formats import find_format, format_names
from penstock.connector.options.bad_records import BAD_RECORD_OPTIONS
from penstock.connector.options.legacy import older_keys
from penstock.connector.options.watermark import WATERMARK_OPTIONS
from penstock.connector.registry import built_in_names, find_connector
from penstock.sql.settings import RESTART_SETTINGS, SETTINGS

PAGE = Path("docs/options.md")
"""Where the page is, from the root of a checkout."""

Described = Option[Any] | PrefixOption


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSection:
    """One table of the page. `scoped`: its options are of tables, and say where they have an effect."""

    title: str
    text: str
    options: tuple[Described, ...]
    scoped: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """Options that several connectors have."""

    title: str
    text: str
    options: tuple[Option[Any], ...]

    @property
    def link(self) -> str:
        """The place on the page."""
        return f"[{self.title.lower()}](#{self.title.lower().replace(' ', '-')})"


SHARED = (
    SharedOptions(
        title="Options of watermarks",
        text="Of all tables that are read by splits. What they do: [event-time.md](event-time.md).",
        options=WATERMARK_OPTIONS,
    ),
    SharedOptions(
        title="Options of bad records",
        text="Of tables whose records are decoded. What they do: [dead-letters.md](dead-letters.md).",
        options=BAD_RECORD_OPTIONS,
    ),
)

HEAD = """\
# Options

Every option of the built-in connectors, formats and catalogs, and every key of SET. This page is written by
`python -m penstock.sql.compatibility` from the descriptors that check the options.

- **default**: what holds where the option is not set; *required*: it has to be set; *none*: nothing holds.
- **where**: what an option has an effect on: a table as a source, as a sink (perhaps only one that delivers exactly
  once), or as the table that a lookup join asks.
- **in Flink**: empty where Flink has the option with the same meaning and default; *none* where the option is
  Penstock's own; else what Flink has under that key.

A duration is a number and a unit, from `ns` to `d`, and without a unit in ms; a size is a number and `b`, `kb`, `mb`,
`gb` or `tb`, in steps of 1,024, and without a unit in bytes. Words of a choice are read in any case. Keys of releases
of Flink up to 1.10 (`connector.topic`, `format.type`, ...) are read as today's.
"""
FORMATS = """\
## Formats

The options of `format`. Those of `value.format` begin with `value.`, of `key.format` with `key.`, as in
`value.json.ignore-parse-errors`.
"""
CATALOGS = """\
## Catalogs

The options of `CREATE CATALOG`, by the type of the catalog: [catalogs.md](catalogs.md).
"""
SET = """\
## SET

Keys of `SET 'key' = 'value'`, of `penstock.toml` and of `penstock run --set`. Other keys of Flink's families
(`table.`, `execution.`, `state.`, ...) are taken and change nothing; keys that begin with `spark.` are not taken.
"""
METADATA = """\
## Metadata columns

`name TYPE METADATA FROM 'key'` is a column of what is known of a record beside its value; without FROM the name is the
key. Declared as another type it is cast, as in Flink: [flink-compatibility.md](flink-compatibility.md). What is only
read is declared `VIRTUAL` in a table that is written; what is written, too, is left out of INSERTs by `VIRTUAL`.
Connectors that are not here have none.
"""
VALUE_METADATA = (
    "Of tables of Kafka whose value has this format (`format` or `value.format`). Only read."
)


def sections() -> tuple[tuple[str, tuple[OptionSection, ...]], ...]:
    """Return the parts of the page, each a heading with its sections."""
    return (
        ("## Connectors\n", (*map(_connector, built_in_names()), *map(_shared, SHARED))),
        (FORMATS, (*map(_format, format_names()), *_own_formats())),
        (CATALOGS, tuple(map(_catalog, catalog_types()))),
        (SET, (_section_of_settings(),)),
    )


def write_page() -> str:
    """Return the text of the page, in Markdown."""
    parts = [HEAD]
    for heading, members in sections():
        parts.append(f"\n{heading}")
        parts += [_written(section) for section in members]
    return "".join([*parts, f"\n{METADATA}", *_metadata()])


def _metadata() -> Iterator[str]:
    """Write the tables of metadata columns: of connectors, then of formats."""
    for name in built_in_names():
        keys = find_connector(name, project=Path()).metadata
        if keys:
            yield f"\n### Metadata of 'connector' = '{name}'\n\n"
            yield _line(("key", "type", "read or written", "what it is")) + _line(["---"] * 4)
            for one in keys:
                access = "read, written" if one.writable else "read"
                yield _line((f"`{one.key}`", _code(one.type), access, _cell(one.doc)))
    for name in format_names():
        known = find_format(name).metadata
        if known:
            yield f"\n### Metadata of 'format' = '{name}'\n\n{VALUE_METADATA}\n\n"
            yield _line(("key", "type")) + _line(["---"] * 2)
            for key, kind in known.items():
                yield _line((f"`value.{key}`", _code(kind)))


def _connector(name: str) -> OptionSection:
    options = find_connector(name, project=Path()).options
    shared = {option for group in SHARED for option in group.options}
    groups = [group.link for group in SHARED if set(group.options) <= set(options)]
    return OptionSection(
        title=f"'connector' = '{name}'",
        text=f"Also the {' and the '.join(groups)}." if groups else "",
        options=tuple(option for option in options if option not in shared),
    )


def _shared(group: SharedOptions) -> OptionSection:
    return OptionSection(title=group.title, text=group.text, options=group.options)


def _format(name: str) -> OptionSection:
    options = find_format(name).options()
    return OptionSection(title=f"'format' = '{name}'", text="", options=options)


def _own_formats() -> Iterable[OptionSection]:
    for name in built_in_names():
        for one, options in find_connector(name, project=Path()).own_formats.items():
            text = f"Of tables of `{name}` that are written."
            yield OptionSection(title=f"'format' = '{one}'", text=text, options=tuple(options))


def _catalog(kind: str) -> OptionSection:
    title, text = f"'type' = '{kind}'", f"The catalog {catalog_types()[kind]}."
    return OptionSection(title=title, text=text, options=catalog_options(kind), scoped=False)


def _code(kind: LogicalType) -> str:
    text = str(kind)
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _section_of_settings() -> OptionSection:
    options = (*SETTINGS, *RESTART_SETTINGS)
    return OptionSection(title="Keys of a job", text="", options=options, scoped=False)


def _written(section: OptionSection) -> str:
    titles = ["option", "type", "default", *(["where"] if section.scoped else [])]
    titles += ["what it does", "in Flink"]
    lines = [f"\n### {section.title}\n\n"]
    lines += [f"{section.text}\n\n"] if section.text else []
    lines += [_line(titles), _line(["---"] * len(titles))]
    for option in section.options:
        lines.append(_line(_cells(option, scoped=section.scoped)))
        if isinstance(option, PrefixOption):
            lines += [_line(_cells(member, scoped=section.scoped)) for member in option.members]
    return "".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _cells(option: Described, *, scoped: bool) -> Sequence[str]:
    where = [scope_of(option).value] if scoped else []
    flink = "*none*" if option.flink is None else _cell(option.flink)
    return [f"`{key_of(option)}`", _type(option), _default(option), *where, _what(option), flink]


def key_of(option: Described) -> str:
    """Return the key of an option, of a family with a star."""
    return option.key if isinstance(option, Option) else f"{option.prefix}*"


_BY_FIRST_WORD = {
    "scan": OptionScope.SOURCE,
    "source": OptionScope.SOURCE,
    "bad-records": OptionScope.SOURCE,
    "dead-letter": OptionScope.SOURCE,
    "sink": OptionScope.SINK,
    "lookup": OptionScope.LOOKUP,
}


def scope_of(option: Described) -> OptionScope:
    """Return where an option of a table has an effect."""
    first = key_of(option).partition(".")[0]
    return option.scope or _BY_FIRST_WORD.get(first, OptionScope.TABLE)


def _type(option: Described) -> str:
    if isinstance(option, PrefixOption):
        return "texts"
    if option.type.choices:
        return ", ".join(f"`{choice}`" for choice in option.type.choices)
    return _cell(option.type.name)


def _default(option: Described) -> str:
    if isinstance(option, PrefixOption):
        return "*none*"
    if option.required:
        return "*required*"
    text = default_text(option)
    return f"`{text}`" if text else "*none*"


_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
_UNITS_BYTES = (("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("b", 1))


def default_text(option: Option[Any]) -> str:
    """Return the default of an option as it would be set; empty where there is none."""
    value = option.default
    if value is None or value in ("", ()):
        return ""
    if option.type in (DURATION, MEMORY):
        units = _UNITS_MS if option.type is DURATION else _UNITS_BYTES
        return "0" if value == 0 else _in_units(value, units)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_units(value: int, units: Sequence[tuple[str, int]]) -> str:
    unit, size = next((unit, size) for unit, size in units if value % size == 0)
    return f"{value // size} {unit}"


def _what(option: Described) -> str:
    text = " ".join(option.doc.split()).rstrip(".")
    parts = [f"{text[:1].upper()}{text[1:]}."]
    if isinstance(option, Option):
        if option.secret:
            parts.append("Never shown.")
        if older := sorted({*option.aliases, *older_keys(option.key)}):
            parts.append(f"Older keys: {', '.join(f'`{key}`' for key in older)}.")
        if option.references:
            parts.append("May hold [references](secrets.md).")
    return _cell(" ".join(parts))


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")
