"""Options as data: typed descriptors that parse, validate, document and redact the text pairs of WITH and SET.

Checks and messages follow Flink's FactoryUtil: missing required options first, then every value, then unknown keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from penstock.catalog.errors import OptionError, did_you_mean

__all__ = [
    "BOOLEAN",
    "DURATION",
    "INT",
    "LIST",
    "LONG",
    "MEMORY",
    "REDACTED",
    "STRING",
    "Option",
    "OptionType",
    "PrefixOption",
    "Resolved",
    "enum_type",
    "is_secret",
    "redact",
    "resolve",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
REDACTED = "******"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionType(Generic[T_co]):
    """How a value is read from text; `parse` raises ValueError. `name` says what is expected."""

    name: str
    parse: Callable[[str], T_co]


_DURATION = re.compile(r"\s*(\d+)\s*([A-Za-zµ]*)\s*\Z")
_DURATION_MS = {
    **dict.fromkeys(("ns", "nano", "nanosecond", "nanoseconds"), 1e-6),
    **dict.fromkeys(("us", "µs", "micro", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("", "ms", "milli", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_MEMORY_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}


def _scaled(units: Mapping[str, float]) -> Callable[[str], int]:
    def parse(text: str) -> int:
        found = _DURATION.match(text)
        if found is None or found.group(2).lower() not in units:
            raise ValueError(text)
        return int(int(found.group(1)) * units[found.group(2).lower()])

    return parse


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(text)
    return text.strip().lower() == "true"


def _bounded(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text.strip())
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

    return OptionType(name="one of " + ", ".join(repr(value) for value in values), parse=parse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Generic[T_co]):
    """One option. `aliases` are older keys that are still read; `secret` values are never shown.

    An option that may be absent is an `Option[T | None]` with the default None.
    """

    key: str
    type: OptionType[T_co]
    default: T_co | None
    doc: str
    required: bool = False
    aliases: tuple[str, ...] = ()
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixOption:
    """All options that begin with `prefix`, passed on as they are."""

    prefix: str
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Option values, parsed."""

    values: Mapping[str, Any]
    passed_on: Mapping[str, str]

    def get(self, option: Option[T]) -> T:
        """Give an option's value: as set, else its default.

        An option without a default gives None; its descriptor then says `T | None`.
        """
        return cast("T", self.values.get(option.key, option.default))

    def is_set(self, option: Option[Any]) -> bool:
        """Tell whether the user set the option."""
        return option.key in self.values

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Give the options that begin with `prefix`, without it."""
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
    _check_required(options, known, owner)
    values: dict[str, Any] = {}
    passed_on: dict[str, str] = {}
    unknown: list[str] = []
    for key, text in options.items():
        option = by_key.get(key)
        if option is not None:
            values[option.key] = _parse(option, key, text, owner)
        elif key.startswith(prefixes or ("\0",)):
            passed_on[key] = text
        else:
            unknown.append(key)
    if unknown:
        raise _unknown(unknown, known, owner)
    return Resolved(values=values, passed_on=passed_on)


def _check_required(
    options: Mapping[str, str], known: Sequence[Option[Any] | PrefixOption], owner: str
) -> None:
    missing = sorted(
        option.key
        for option in known
        if isinstance(option, Option)
        and option.required
        and not {option.key, *option.aliases} & options.keys()
    )
    if missing:
        raise OptionError(
            f"{owner}: one or more required options are missing: {', '.join(missing)}",
            hint="add " + ", ".join(f"'{key}' = '...'" for key in missing),
        )


def _parse(option: Option[T], key: str, text: str, owner: str) -> T:
    try:
        return option.type.parse(text)
    except ValueError:
        shown = REDACTED if option.secret or is_secret(key) else text
        raise OptionError(
            f"{owner}: option '{key}' = '{shown}' is not {option.type.name}", hint=option.doc
        ) from None


def _unknown(
    unknown: Sequence[str], known: Sequence[Option[Any] | PrefixOption], owner: str
) -> OptionError:
    keys = sorted(
        option.key if isinstance(option, Option) else f"{option.prefix}*" for option in known
    )
    near = [did_you_mean(key, keys) for key in unknown]
    return OptionError(
        f"{owner}: unsupported option{'s' if len(unknown) > 1 else ''} {', '.join(repr(key) for key in unknown)}",
        hint="; ".join([hint for hint in near if hint] + [f"supported are: {', '.join(keys)}"]),
    )


# Flink's GlobalConfiguration list, wider: a key that only resembles a secret's is masked too
_SECRET = re.compile(
    r"passw(or)?d|secret|token|credential|api[._-]?key|apikey|private[._-]?key|account\.key|"
    r"sasl\.jaas\.config|basic-auth|auth-params|user-info|\.pem$|ssl\.key",
    re.IGNORECASE,
)
_URL_SECRET = re.compile(
    r"(?<=://)([^/@\s:]+):([^/@\s]+)(?=@)|(?<=[?&;])(password|token|sig)=[^&;\s]+", re.IGNORECASE
)


def is_secret(key: str) -> bool:
    """Tell whether an option's value must not be shown."""
    return _SECRET.search(key) is not None


def redact(options: Mapping[str, str]) -> dict[str, str]:
    """Give the options with secret values as ******, and passwords inside URLs too."""
    return {
        key: REDACTED if is_secret(key) else _URL_SECRET.sub(REDACTED, value)
        for key, value in options.items()
    }
