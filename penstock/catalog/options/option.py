"""Options as data: typed descriptors that parse, validate, document and redact the text pairs of a WITH clause.

An `OptionType` reads one value (number, duration, memory size, list, enum); an `Option` has a key, a type, a
default and a description; `resolve` checks a whole mapping and names unknown and missing keys.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar, cast

from penstock.catalog.errors import OptionError, did_you_mean
from penstock.catalog.masking import REDACTED
from penstock.catalog.options.redaction import is_secret, redact
from penstock.catalog.options.references import check_references, holds_reference

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionType(Generic[T_co]):
    """How a value is read from text; `parse` raises ValueError. `name` says what is expected.

    `choices` are the values where there are only a few.
    """

    name: str
    parse: Callable[[str], T_co]
    choices: tuple[str, ...] = ()


_QUANTITY = re.compile(r"\s*([0-9]+)\s*([A-Za-zµ]*)\s*\Z")

_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*\Z")

# unit -> (factor, divisor); names as in Flink's TimeUtils and MemorySize, in any case
_DURATION_MS = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), (1, 1_000_000)),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), (1, 1000)),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), (1, 1)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), (1000, 1)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), (60_000, 1)),
    **dict.fromkeys(("h", "hour", "hours"), (3_600_000, 1)),
    **dict.fromkeys(("d", "day", "days"), (86_400_000, 1)),
}

_MEMORY_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), (1, 1)),
    **dict.fromkeys(("k", "kb", "kibibytes"), (1 << 10, 1)),
    **dict.fromkeys(("m", "mb", "mebibytes"), (1 << 20, 1)),
    **dict.fromkeys(("g", "gb", "gibibytes"), (1 << 30, 1)),
    **dict.fromkeys(("t", "tb", "tebibytes"), (1 << 40, 1)),
}

_LARGEST = (1 << 63) - 1


def _scaled(units: Mapping[str, tuple[int, int]]) -> Callable[[str], int]:
    def parse(text: str) -> int:
        found = _QUANTITY.match(text)
        if found is None or found.group(2).lower() not in units:
            raise ValueError(text)
        factor, divisor = units[found.group(2).lower()]
        number = int(found.group(1)) * factor // divisor
        if number > _LARGEST:
            raise ValueError(text)
        return number

    return parse


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(text)
    return text.strip().lower() == "true"


def _bounded(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if _WHOLE.match(text) is None:
            raise ValueError(text)
        number = int(text)
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise ValueError(text)
        return number

    return parse


STRING: OptionType[str] = OptionType(name="a text", parse=str)

INT: OptionType[int] = OptionType(name="a whole number", parse=_bounded(32))

LONG: OptionType[int] = OptionType(name="a whole number", parse=_bounded(64))

BOOLEAN: OptionType[bool] = OptionType(name="true or false", parse=_boolean)

DURATION: OptionType[int] = OptionType(
    name="a duration such as '5 min', '1s' or '200 ms'", parse=_scaled(_DURATION_MS)
)

MEMORY: OptionType[int] = OptionType(
    name="a size such as '8 mb' or '1gb'", parse=_scaled(_MEMORY_BYTES)
)

LIST: OptionType[tuple[str, ...]] = OptionType(
    name="a list separated by ';'",
    parse=lambda text: tuple(part.strip() for part in text.split(";") if part.strip()),
)


def enum_type(*values: str) -> OptionType[str]:
    """Make a type of a few words, read in any case and given as spelled here."""

    def parse(text: str) -> str:
        for value in values:
            if value.lower() == text.strip().lower():
                return value
        raise ValueError(text)

    name = "one of " + ", ".join(repr(value) for value in values)
    return OptionType(name=name, parse=parse, choices=values)


T = TypeVar("T")


class OptionScope(StrEnum):
    """Where an option of a table has an effect, as docs/options.md says it."""

    TABLE = "source, sink"
    SOURCE = "source"
    SINK = "sink"
    EXACTLY_ONCE = "sink, exactly-once"
    LOOKUP = "lookup join"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Generic[T_co]):
    """One option. `aliases` are older keys that are still read; `secret` values are never shown.

    `references`: the value may hold some (`references.py`); whoever connects with it has to reveal it.
    An option that may be absent is an `Option[T | None]` with the default None.
    `scope` is None where the first word of the key says it. `flink` is what Flink has under the key where that is
    something else, None where Flink has no such key. Both are for docs/options.md.
    """

    key: str
    type: OptionType[T_co]
    default: T_co | None
    doc: str
    required: bool = False
    aliases: tuple[str, ...] = ()
    secret: bool = False
    references: bool = False
    scope: OptionScope | None = None
    flink: str | None = ""


def optional(
    type_: OptionType[Any],
    key: str,
    doc: str,
    *,
    scope: OptionScope | None = None,
    flink: str | None = "",
) -> Option[Any]:
    """Make an option that may be absent, and is None then."""
    return Option(key=key, type=type_, default=None, doc=doc, scope=scope, flink=flink)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixOption:
    """All options that begin with `prefix`, passed on as they are.

    `references` are names behind the prefix whose values may hold some, as with `Option`. `members` are the options
    that are read from what is passed on, for docs/options.md; `scope` and `flink` are those of `Option`.
    """

    prefix: str
    doc: str
    references: frozenset[str] = frozenset()
    members: tuple[Option[Any], ...] = ()
    scope: OptionScope | None = None
    flink: str | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Option values, parsed."""

    values: Mapping[str, Any]
    passed_on: Mapping[str, str]

    def get(self, option: Option[T]) -> T:
        """Return an option's value: as set, else its default.

        An option without a default returns None; its descriptor is then of `T | None`.
        """
        return cast("T", self.values.get(option.key, option.default))

    def is_set(self, option: Option[Any]) -> bool:
        """Return whether the user set the option."""
        return option.key in self.values

    def at_least_one(self, option: Option[T], *, owner: str) -> T:
        """Return a number that must be above 0 where it is set. Raises OptionError."""
        value = self.get(option)
        if isinstance(value, int) and value < 1:
            raise OptionError(f"{owner}: option '{option.key}' = '{value}' must be at least 1")
        return value

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Return the options that begin with `prefix`, without it."""
        return {
            key[len(prefix) :]: value
            for key, value in self.passed_on.items()
            if key.startswith(prefix)
        }

    def __repr__(self) -> str:
        return f"Resolved({redact({k: str(v) for k, v in self.values.items()})}, {redact(self.passed_on)})"


def resolve(
    options: Mapping[str, str], known: Sequence[Option[Any] | PrefixOption], *, owner: str
) -> Resolved:
    """Parse `options` by the descriptors of `known`. `owner` names what they belong to. Raises OptionError."""
    by_key = {
        key: option
        for option in known
        if isinstance(option, Option)
        for key in (option.key, *option.aliases)
    }
    prefixes = tuple(option.prefix for option in known if isinstance(option, PrefixOption))
    prefixes_or_none = prefixes or ("\0",)
    unknown = [k for k in options if k not in by_key and not k.startswith(prefixes_or_none)]
    _check_required(options, known, unknown, owner)
    values: dict[str, Any] = {}
    passed_on: dict[str, str] = {}
    for key, text in options.items():
        option = by_key.get(key)
        _check_references(key, text, known, owner)
        if option is not None:
            values[option.key] = _parse(option, key, text, owner)
        elif key.startswith(prefixes_or_none):
            passed_on[key] = text
    if unknown:
        raise _unknown(unknown, known, owner)
    return Resolved(values=values, passed_on=passed_on)


def _check_required(
    options: Mapping[str, str],
    known: Sequence[Option[Any] | PrefixOption],
    unknown: Sequence[str],
    owner: str,
) -> None:
    """Check that all required options are set; a misspelt one is reported with the intended one."""
    missing = sorted(
        option.key
        for option in known
        if isinstance(option, Option)
        and option.required
        and not {option.key, *option.aliases} & options.keys()
    )
    if not missing:
        return
    message = f"{owner}: one or more required options are missing: {', '.join(missing)}"
    near = {key: hint for key in unknown if (hint := did_you_mean(key, missing))}
    if near:
        several = "s" if len(near) > 1 else ""
        message += f"; unsupported option{several} {', '.join(map(repr, near))}"
    rest = [key for key in missing if not any(repr(key) in hint for hint in near.values())]
    added = ["add " + ", ".join(f"'{key}' = '...'" for key in rest)] if rest else []
    raise OptionError(message, hint="; ".join([*near.values(), *added]))


def _check_references(
    key: str, text: str, known: Sequence[Option[Any] | PrefixOption], owner: str
) -> None:
    """Refuse references that would not be resolved, and malformed ones. Raises OptionError."""
    if "${" not in text:
        return
    taking: list[str] = []
    for option in known:
        match option:
            case Option(references=True):
                taking += [option.key, *option.aliases]
            case PrefixOption():
                taking += sorted(option.prefix + name for name in option.references)
    if key in taking:
        check_references(text, what=f"{owner}: option '{key}'")
    elif holds_reference(text):
        where = f"options that do: {', '.join(taking)}; " if taking else ""
        raise OptionError(
            f"{owner}: option '{key}' does not take references such as ${{env:NAME}}",
            hint=f"{where}in a SQL file a template does it, {{{{ env_var('NAME') }}}}",
        )


def _parse(option: Option[T], key: str, text: str, owner: str) -> T:
    try:
        return option.type.parse(text)
    except ValueError:
        shown = REDACTED if option.secret or is_secret(key) else text
        near = did_you_mean(text.lower(), option.type.choices)
        raise OptionError(
            f"{owner}: option '{key}' = '{shown}' is not {option.type.name}",
            hint=f"{near} ({option.doc})" if near else option.doc,
        ) from None


def _unknown(
    unknown: Sequence[str], known: Sequence[Option[Any] | PrefixOption], owner: str
) -> OptionError:
    keys = sorted(
        option.key if isinstance(option, Option) else f"{option.prefix}*" for option in known
    )
    near = [did_you_mean(key, keys) for key in unknown]
    hints = [hint for hint in near if hint]
    if len(hints) < len(unknown):
        shown = _in_short(keys)
        hints.append(f"supported are: {', '.join(shown)}{_PAGE if shown != keys else ''}")
    return OptionError(
        f"{owner}: unsupported option{'s' if len(unknown) > 1 else ''} {', '.join(repr(key) for key in unknown)}",
        hint="; ".join(hints),
    )


_PAGE = "; docs/options.md describes those of built-in connectors"


def _in_short(keys: Sequence[str]) -> list[str]:
    """List keys, those of a family as `scan.*`: a connector has fifty, too many for a list to read."""
    families = Counter(key.partition(".")[0] for key in keys if "." in key)
    shown = {
        f"{family}.*" if families[family] > FAMILY else key
        for key in keys
        for family in (key.partition(".")[0] if "." in key else "",)
    }
    return sorted(shown)


FAMILY = 2
"""Options with the same first word that are listed one by one."""
