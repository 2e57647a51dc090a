"""The WITH clause of a nexmark table as one checked, typed value, and the columns that such a table may have.

Keys and defaults are those of the connector that is published for Flink; `base-time`, `base-time-factor` and `seed` are
additions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from penstock.catalog.errors import DefinitionError, OptionError, did_you_mean
from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn, Table
from penstock.catalog.options.option import (
    BOOLEAN,
    DURATION,
    INT,
    LONG,
    MEMORY,
    STRING,
    Option,
    OptionScope,
    OptionType,
    PrefixOption,
    Resolved,
    enum_type,
    optional,
    resolve,
)
from penstock.connector.options.watermark import (
    WATERMARK_OPTIONS,
    WatermarkSettings,
    read_watermark_settings,
)

_BASE_TIME = "2015-07-15 00:00:00"


def _instant(text: str) -> datetime:
    """Read a time; one without a zone is of UTC."""
    found = datetime.fromisoformat(text.strip())
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    if found < datetime.fromtimestamp(0, UTC):
        raise ValueError(text)
    return found


_TIME: OptionType[datetime] = OptionType(
    name=f"a time from 1970 on, such as '{_BASE_TIME}'", parse=_instant
)

_FACTOR_TEXT = re.compile(r"\s*[0-9]{1,7}(\.[0-9]{1,3})?\s*\Z")

_LARGEST_FACTOR = 1_000_000
"""With three decimals at most, times of events are computed in 64 bits at any rate."""


def _factor(text: str) -> Fraction:
    """Read a factor of event time."""
    if not _FACTOR_TEXT.match(text):
        raise ValueError(text)
    found = Fraction(text.strip())
    if not 0 < found <= _LARGEST_FACTOR:
        raise ValueError(text)
    return found


_FACTOR: OptionType[Fraction] = OptionType(
    name="a number above 0 and up to 1000000, with at most three decimals, such as '60' or '0.5'",
    parse=_factor,
)


def _option(
    kind: OptionType[Any], key: str, default: Any, doc: str, *, flink: str | None = ""
) -> Option[Any]:
    scope = OptionScope.SOURCE
    return Option(key=key, type=kind, default=default, doc=doc, scope=scope, flink=flink)


_WITHOUT_EFFECT = "read, and without an effect: the rate is the same all the time"

FIRST_EVENT_RATE = _option(INT, "first-event.rate", 10_000, "events in a second")
NEXT_EVENT_RATE: Option[int | None] = optional(
    INT,
    "next-event.rate",
    "the same as 'first-event.rate': a rate that changes is refused",
    scope=OptionScope.SOURCE,
    flink="read, and without an effect",
)
EVENTS_NUM = _option(
    LONG, "events.num", 0, "events in all, of all three kinds; 0 is a table without end"
)
STOP_AT = _option(LONG, "stop-at", -1, "ends the table before this event; below 0 it does not")
KEEP_ALIVE = _option(
    BOOLEAN, "keep-alive", False, "the table has no end, and no more events after the last one"
)
MAX_EMIT_SPEED = _option(
    BOOLEAN,
    "max-emit-speed",
    True,
    "all events are there at once; with 'false' each becomes due when its time has come, from now on",
)
PERSON_PROPORTION = _option(INT, "person.proportion", 1, "persons in a round of events")
AUCTION_PROPORTION = _option(INT, "auction.proportion", 3, "auctions in a round of events")
BID_PROPORTION = _option(INT, "bid.proportion", 46, "bids in a round of events")
HOT_AUCTIONS = _option(
    INT, "bid.hot-ratio.auctions", 2, "one bid of so many is not for a hot auction"
)
HOT_BIDDERS = _option(INT, "bid.hot-ratio.bidders", 4, "one bid of so many is not of a hot bidder")
HOT_SELLERS = _option(
    INT, "auction.hot-ratio.sellers", 4, "one auction of so many is not of a hot seller"
)
PERSON_SIZE = _option(
    MEMORY, "person.avg-size", 200, "bytes of a person on average, filled up by `extra`"
)
AUCTION_SIZE = _option(
    MEMORY, "auction.avg-size", 500, "bytes of an auction on average, filled up by `extra`"
)
BID_SIZE = _option(MEMORY, "bid.avg-size", 100, "bytes of a bid on average, filled up by `extra`")
BASE_TIME = _option(
    _TIME,
    "base-time",
    _instant(_BASE_TIME),
    "the `dateTime` of event 0, in UTC where it names no zone",
    flink=None,
)
BASE_TIME_FACTOR = _option(
    _FACTOR,
    "base-time-factor",
    Fraction(1),
    "event time from event to event, as a multiple of 1 / 'first-event.rate' seconds",
    flink=None,
)
SEED = _option(LONG, "seed", 0, "other events, of the same distribution", flink=None)
PARALLELISM: Option[int | None] = optional(
    INT, "scan.parallelism", "tasks of a batch; default one", flink="tasks of the source operator"
)
OPTIONS: tuple[Option[Any] | PrefixOption, ...] = (
    Option(
        key="connector",
        type=STRING,
        default=None,
        doc="'nexmark': persons, auctions and bids of the Nexmark benchmark",
        required=True,
        scope=OptionScope.SOURCE,
    ),
    EVENTS_NUM,
    STOP_AT,
    KEEP_ALIVE,
    MAX_EMIT_SPEED,
    FIRST_EVENT_RATE,
    NEXT_EVENT_RATE,
    _option(enum_type("SQUARE", "SINE"), "rate.shape", "SQUARE", _WITHOUT_EFFECT),
    _option(DURATION, "rate.period", 600_000, _WITHOUT_EFFECT),
    _option(BOOLEAN, "rate.limited", False, _WITHOUT_EFFECT),
    BASE_TIME,
    BASE_TIME_FACTOR,
    SEED,
    PERSON_PROPORTION,
    AUCTION_PROPORTION,
    BID_PROPORTION,
    HOT_AUCTIONS,
    HOT_BIDDERS,
    HOT_SELLERS,
    PERSON_SIZE,
    AUCTION_SIZE,
    BID_SIZE,
    PARALLELISM,
    *WATERMARK_OPTIONS,
)

_LARGEST_SIZE = 512 * 1024
"""Bytes of an event: an `extra` is a part of a random text of twice the length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportions:
    """How many events of each kind a round has: persons come first, then auctions, then bids."""

    person: int
    auction: int
    bid: int

    @property
    def total(self) -> int:
        """Events of a round."""
        return self.person + self.auction + self.bid


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSettings:
    """What an event is, with its number: all that two tables with the same events have in common."""

    rate: int
    base_time_ms: int
    base_time_factor: Fraction
    seed: int
    proportions: Proportions
    hot_auctions: int
    hot_bidders: int
    hot_sellers: int
    person_size: int
    auction_size: int
    bid_size: int

    @property
    def interval_ms(self) -> Fraction:
        """Event time from one event to the next."""
        return Fraction(1000, self.rate) * self.base_time_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkSettings:
    """What the WITH clause says, checked. `number_of_events` is None for a table without an end of its events."""

    events: EventSettings
    columns: tuple[PhysicalColumn, ...]
    number_of_events: int | None
    keeps_alive: bool
    at_once: bool
    parallelism: int | None
    watermark: WatermarkSettings


_BIGINT, _TEXT, _INSTANT = "BIGINT", "STRING", "TIMESTAMP(3)"

ROWS: Mapping[str, Mapping[str, str]] = {
    "person": {
        "id": _BIGINT,
        "name": _TEXT,
        "emailAddress": _TEXT,
        "creditCard": _TEXT,
        "city": _TEXT,
        "state": _TEXT,
        "dateTime": _INSTANT,
        "extra": _TEXT,
    },
    "auction": {
        "id": _BIGINT,
        "itemName": _TEXT,
        "description": _TEXT,
        "initialBid": _BIGINT,
        "reserve": _BIGINT,
        "dateTime": _INSTANT,
        "expires": _INSTANT,
        "seller": _BIGINT,
        "category": _BIGINT,
        "extra": _TEXT,
    },
    "bid": {
        "auction": _BIGINT,
        "bidder": _BIGINT,
        "price": _BIGINT,
        "channel": _TEXT,
        "url": _TEXT,
        "dateTime": _INSTANT,
        "extra": _TEXT,
    },
}
"""The kinds of events, in the order of their `event_type`, with the fields of their columns."""

EVENT_TYPE = "event_type"


def read_settings(table: Table) -> NexmarkSettings:
    """Read a table's WITH clause and columns. Raises OptionError, DefinitionError."""
    owner = f"table {table.identifier}"
    resolved = resolve(table.option_map, OPTIONS, owner=owner)
    _check_columns(table, owner)
    at_once, keeps_alive = resolved.get(MAX_EMIT_SPEED), resolved.get(KEEP_ALIVE)
    count = _number_of_events(resolved, owner)
    if keeps_alive and not at_once and count is not None:
        raise OptionError(
            f"{owner}: 'keep-alive' = 'true' takes no 'events.num' and no 'stop-at' where 'max-emit-speed' = 'false'",
            hint="leave out 'keep-alive' for a table that ends after its events, or the number for one without end",
        )
    return NexmarkSettings(
        events=_event_settings(resolved, owner),
        columns=table.schema.physical,
        number_of_events=count,
        keeps_alive=keeps_alive,
        at_once=at_once,
        parallelism=resolved.at_least_one(PARALLELISM, owner=owner),
        watermark=read_watermark_settings(resolved, owner=owner, connector="nexmark"),
    )


def _number_of_events(resolved: Resolved, owner: str) -> int | None:
    count, stop_at = resolved.get(EVENTS_NUM), resolved.get(STOP_AT)
    if count < 0:
        raise OptionError(
            f"{owner}: option 'events.num' = '{count}' is no number of events",
            hint="'events.num' = '0' is a table without end",
        )
    ends = [end for end in (count or None, stop_at if stop_at >= 0 else None) if end is not None]
    return min(ends) if ends else None


def _event_settings(resolved: Resolved, owner: str) -> EventSettings:
    rate = resolved.at_least_one(FIRST_EVENT_RATE, owner=owner)
    later = resolved.get(NEXT_EVENT_RATE)
    if later is not None and later != rate:
        raise OptionError(
            f"{owner}: 'next-event.rate' = '{later}' is another rate than 'first-event.rate' = '{rate}', and a rate "
            "does not change",
            hint="leave out 'next-event.rate', or set both alike",
        )
    return EventSettings(
        rate=rate,
        base_time_ms=round(resolved.get(BASE_TIME).timestamp() * 1000),
        base_time_factor=resolved.get(BASE_TIME_FACTOR),
        seed=resolved.get(SEED),
        proportions=_proportions(resolved, owner),
        hot_auctions=resolved.at_least_one(HOT_AUCTIONS, owner=owner),
        hot_bidders=resolved.at_least_one(HOT_BIDDERS, owner=owner),
        hot_sellers=resolved.at_least_one(HOT_SELLERS, owner=owner),
        person_size=_size(resolved, PERSON_SIZE, owner),
        auction_size=_size(resolved, AUCTION_SIZE, owner),
        bid_size=_size(resolved, BID_SIZE, owner),
    )


def _proportions(resolved: Resolved, owner: str) -> Proportions:
    options = (PERSON_PROPORTION, AUCTION_PROPORTION, BID_PROPORTION)
    person, auction, bid = (resolved.get(option) for option in options)
    if min(person, auction, bid) < 0 or person + auction + bid == 0:
        raise OptionError(
            f"{owner}: the proportions of persons, auctions and bids, {person}, {auction} and {bid}, are no round of "
            "events",
            hint="none is below 0, and one is above; the default is 1, 3 and 46",
        )
    return Proportions(person=person, auction=auction, bid=bid)


def _size(resolved: Resolved, option: Option[int], owner: str) -> int:
    size = resolved.get(option)
    if size > _LARGEST_SIZE:
        raise OptionError(
            f"{owner}: option '{option.key}' = '{size}' is more than {_LARGEST_SIZE} bytes, the largest event"
        )
    return size


def _check_columns(table: Table, owner: str) -> None:
    """Check that each column is one of the generator's, by name and type. Raises DefinitionError."""
    for asked in table.schema.metadata:
        raise DefinitionError(
            f"{owner}: column '{asked.name}' asks for metadata '{asked.metadata_key}', but 'nexmark' has none",
            hint=f"columns are: {', '.join((EVENT_TYPE, *ROWS))}",
        )
    for column in table.schema.physical:
        where = f"{owner}: column '{column.name}'"
        if column.name == EVENT_TYPE:
            if not isinstance(column.type, t.IntType):
                raise DefinitionError(f"{where} is {column.type}, and 'nexmark' generates INT")
        elif column.name in ROWS:
            _check_row(column, where)
        else:
            names = (EVENT_TYPE, *ROWS)
            raise DefinitionError(
                f"{where} is none that 'nexmark' generates",
                hint=did_you_mean(column.name, names) or f"columns are: {', '.join(names)}",
            )


def _check_row(column: PhysicalColumn, where: str) -> None:
    fields = ROWS[column.name]
    if not isinstance(column.type, t.RowType):
        declared = ", ".join(f"{name} {kind}" for name, kind in fields.items())
        raise DefinitionError(
            f"{where} is {column.type}, and 'nexmark' generates a ROW", hint=f"ROW<{declared}>"
        )
    if not column.type.nullable:
        raise DefinitionError(
            f"{where} is NOT NULL, and is NULL for events of the other kinds",
            hint="leave out NOT NULL",
        )
    for field in column.type.fields:
        if field.name not in fields:
            raise DefinitionError(
                f"{where} has a field '{field.name}' that 'nexmark' does not generate",
                hint=did_you_mean(field.name, fields) or f"fields are: {', '.join(fields)}",
            )
        if not _holds(field.type, fields[field.name]):
            raise DefinitionError(
                f"{where}: field '{field.name}' is {field.type}, and 'nexmark' generates {fields[field.name]}"
            )


def _holds(declared: t.LogicalType, made: str) -> bool:
    """Tell whether a declared type takes what is generated. Of VARCHAR no length is checked: it may be left out."""
    match declared:
        case t.BigIntType():
            return made == _BIGINT
        case t.VarCharType():
            return made == _TEXT
        case t.TimestampType() | t.TimestampLtzType():
            return made == _INSTANT and declared.precision >= 3
    return False
