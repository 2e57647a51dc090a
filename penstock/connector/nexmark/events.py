"""Generate Nexmark's events as Arrow columns: each field is a function of the event's number and the seed.

Written from the description of the published generator: a round of events holds persons, then auctions, then bids, so
that an event's number tells its kind and its id. Names of constants say what the generator calls them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.connector.arrow import arrow_field, arrow_type
from penstock.connector.formats.decoders import batch_of
from penstock.connector.generated.random import Bits, RowNumbers, bits_of, share
from penstock.connector.nexmark.settings import EVENT_TYPE, ROWS, EventSettings, NexmarkSettings

FIRST_AUCTION_ID = 1000
FIRST_PERSON_ID = 1000
FIRST_CATEGORY_ID = 10
CATEGORIES = 5
HOT_BATCH = 100
"""The first auction, seller and the second person of so many are the hot ones (HOT_AUCTION_RATIO and others)."""
AUCTIONS_IN_FLIGHT = 100
ACTIVE_PEOPLE = 1000
ID_LEAD = 10
"""Ids that are named before they exist (AUCTION_ID_LEAD, PERSON_ID_LEAD)."""
CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")

_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
_FIRST_NAMES = (
    "Peter",
    "Paul",
    "Luke",
    "John",
    "Saul",
    "Vicky",
    "Kate",
    "Julie",
    "Sarah",
    "Deiter",
    "Walter",
)
_LAST_NAMES = (
    "Shultz",
    "Abrams",
    "Spencer",
    "White",
    "Bartels",
    "Walton",
    "Smith",
    "Jones",
    "Noris",
)

_SHORTEST_TEXT = 3
_POOL = 1 << 20
"""Characters of the random text that others are parts of."""
_WIDE = 8
"""Bytes of a BIGINT or a time, as sizes of events count them."""


@lru_cache(maxsize=8)
def _pool(seed: int, special: str) -> npt.NDArray[np.uint8]:
    """Return a random text of small letters, where one character of 13 is `special`, if there is one."""
    positions = np.arange(_POOL, dtype=np.int64)
    letters = bits_of(f"{seed}\0letters{special}", positions) % np.uint64(26) + np.uint64(ord("a"))
    found = letters.astype(np.uint8)
    if special:
        found[bits_of(f"{seed}\0special{special}", positions) % np.uint64(13) == 0] = ord(special)
    return found


def _texts(pool: npt.NDArray[np.uint8], starts: RowNumbers, lengths: RowNumbers) -> pa.Array:
    """Cut a text for each start out of `pool`."""
    ends = np.cumsum(lengths)
    size = int(ends[-1]) if len(ends) else 0
    positions = np.arange(size, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(pool[positions].tobytes())]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


@lru_cache(maxsize=2)
def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """Return the names and the addresses of all channels, the hot ones behind the others."""
    numbers = np.arange(CHANNELS + len(HOT_CHANNELS), dtype=np.int64)
    parts = [_Draws(seed, f"url{n}", numbers).text(5, "_").to_pylist() for n in range(3)]
    addresses = [
        f"https://www.nexmark.com/{a}/{b}/{c}/item.htm?query=1"
        for a, b, c in zip(*parts, strict=True)
    ]
    with_id = _Draws(seed, "url", numbers[:CHANNELS]).below("id", 10) > 0
    for number in np.flatnonzero(with_id).tolist():
        addresses[number] += f"&channel_id={channel_id(number)}"
    names = [f"channel-{number}" for number in range(CHANNELS)]
    return pa.array([*names, *HOT_CHANNELS]), pa.array(addresses)


def channel_id(channel: int) -> int:
    """Reverse the 32 bits of a channel's number, without the sign."""
    reversed_ = int(f"{channel:032b}"[::-1], 2)
    return abs(reversed_ - (1 << 32 if reversed_ >= 1 << 31 else 0))


class _Draws:
    """Random values of events of one kind, by what they are drawn for."""

    def __init__(self, seed: int, kind: str, numbers: RowNumbers) -> None:
        self.numbers = numbers
        self._seed = seed
        self._kind = kind

    def bits(self, purpose: str) -> Bits:
        """Return 64 random bits for each event."""
        return bits_of(f"{self._seed}\0{self._kind}.{purpose}", self.numbers)

    def below(self, purpose: str, limit: int | RowNumbers) -> RowNumbers:
        """Return an integer of [0, `limit`) for each event."""
        bound = np.uint64(limit) if isinstance(limit, int) else limit.astype(np.uint64)
        return (self.bits(purpose) % bound).astype(np.int64)

    def one_of(self, purpose: str, values: Sequence[str]) -> pa.Array:
        """Return one of a few texts for each event."""
        return pa.array(values).take(pa.array(self.below(purpose, len(values))))

    def price(self, purpose: str) -> RowNumbers:
        """Return a price from 100 to 100,000,000, whose logarithm is of a uniform distribution."""
        return np.rint(10.0 ** (share(self.bits(purpose)) * 6.0) * 100.0).astype(np.int64)

    def text(self, longest: int, special: str = " ", purpose: str = "text") -> pa.Array:
        """Return a text of at least three and less than `longest` characters; outer blanks are cut off."""
        lengths = _SHORTEST_TEXT + self.below(f"{purpose}.length", longest - _SHORTEST_TEXT)
        starts = self.below(f"{purpose}.start", _POOL - longest)
        found = _texts(_pool(self._seed, special), starts, lengths)
        return pc.utf8_trim(found, characters=" ") if special == " " else found

    def filler(self, size: RowNumbers, average: int) -> pa.Array:
        """Return a text that fills events of `size` bytes up to `average`, a fifth more or less."""
        room = np.maximum(average - size, 0)
        spread = np.rint(room * 0.2).astype(np.int64)
        varied = self.below("extra.length", np.maximum(2 * spread, 1))
        lengths = room - spread + varied
        starts = self.below("extra.start", _POOL // 2)
        return _texts(_pool(self._seed, ""), starts, lengths)


class _EventsOfKind:
    """Events of one kind: their times, and the ids that were given so far."""

    def __init__(self, settings: EventSettings, kind: str, numbers: RowNumbers) -> None:
        self.settings = settings
        self.numbers = numbers
        self.draws = _Draws(settings.seed, kind, numbers)

    def time_ms(self, numbers: RowNumbers) -> RowNumbers:
        """Return the times of events, epoch ms."""
        time_ms, events = self.settings.interval_ms.as_integer_ratio()
        # in two steps, as a number times the first may not fit 64 bits
        passed_ms = numbers // events * time_ms + numbers % events * time_ms // events
        return self.settings.base_time_ms + passed_ms

    @cached_property
    def times(self) -> RowNumbers:
        """The times of these events."""
        return self.time_ms(self.numbers)

    @cached_property
    def last_person(self) -> RowNumbers:
        """The newest person when the event happens, counted from 0; 0 where no person comes."""
        shares = self.settings.proportions
        rounds, position = np.divmod(self.numbers, shares.total)
        found: RowNumbers = rounds * shares.person + np.minimum(position, shares.person - 1)
        return np.maximum(found, 0)

    @cached_property
    def last_auction(self) -> RowNumbers:
        """The newest auction when the event happens, counted from 0; 0 where there is none yet."""
        shares = self.settings.proportions
        rounds, position = np.divmod(self.numbers, shares.total)
        begun = np.clip(position - shares.person, -1, shares.auction - 1)
        found: RowNumbers = rounds * shares.auction + begun
        return np.maximum(found, 0)

    def person(self, purpose: str, hot_ratio: int, hot: int) -> RowNumbers:
        """Name a person: one of the active ones, or mostly the hot one, the `hot`-th of the last hundred."""
        people = self.last_person + 1
        active = np.minimum(people, ACTIVE_PEOPLE)
        any_ = people - active + self.draws.below(purpose, active + ID_LEAD)
        is_hot = self.draws.below(f"{purpose}.hot", hot_ratio) > 0
        return FIRST_PERSON_ID + np.where(
            is_hot, self.last_person // HOT_BATCH * HOT_BATCH + hot, any_
        )


class Persons(_EventsOfKind):
    """The fields of persons."""

    @cached_property
    def id(self) -> RowNumbers:
        """Counts up."""
        return FIRST_PERSON_ID + self.last_person

    @cached_property
    def name(self) -> pa.Array:
        """A first and a last name."""
        first = self.draws.one_of("first", _FIRST_NAMES)
        return pc.binary_join_element_wise(first, self.draws.one_of("last", _LAST_NAMES), " ")

    @cached_property
    def email(self) -> pa.Array:
        """Two random texts."""
        user = self.draws.text(7, purpose="user")
        host = self.draws.text(5, purpose="host")
        return pc.binary_join_element_wise(pc.binary_join_element_wise(user, host, "@"), ".com", "")

    @cached_property
    def card(self) -> pa.Array:
        """Four times four digits."""
        digits = self.draws.bits("card") % np.uint64(10**16)
        sixteen = pc.utf8_lpad(pa.array(digits).cast(pa.string()), 16, "0")
        parts = [pc.utf8_slice_codeunits(sixteen, at, at + 4) for at in (0, 4, 8, 12)]
        return pc.binary_join_element_wise(*parts, " ")

    @cached_property
    def city(self) -> pa.Array:
        """One of ten."""
        return self.draws.one_of("city", _CITIES)

    @cached_property
    def state(self) -> pa.Array:
        """One of six, whatever the city is."""
        return self.draws.one_of("state", _STATES)

    @cached_property
    def extra(self) -> pa.Array:
        """Fills the event up."""
        texts = (self.name, self.email, self.card, self.city, self.state)
        return self.draws.filler(_WIDE + _length(*texts), self.settings.person_size)


class Auctions(_EventsOfKind):
    """The fields of auctions."""

    @cached_property
    def id(self) -> RowNumbers:
        """Counts up."""
        return FIRST_AUCTION_ID + self.last_auction

    @cached_property
    def item(self) -> pa.Array:
        """A short text."""
        return self.draws.text(20, purpose="item")

    @cached_property
    def description(self) -> pa.Array:
        """A longer text."""
        return self.draws.text(100, purpose="description")

    @cached_property
    def initial_bid(self) -> RowNumbers:
        """A price."""
        return self.draws.price("initial")

    @cached_property
    def reserve(self) -> RowNumbers:
        """Another price on top of the first."""
        return self.initial_bid + self.draws.price("reserve")

    @cached_property
    def expires(self) -> RowNumbers:
        """About when as many later auctions have begun as are in flight at a time."""
        shares = self.settings.proportions
        ahead = AUCTIONS_IN_FLIGHT * shares.total // shares.auction
        horizon = self.time_ms(self.numbers + ahead) - self.times
        return self.times + 1 + self.draws.below("expires", np.maximum(horizon * 2, 1))

    @cached_property
    def seller(self) -> RowNumbers:
        """A person."""
        return self.person("seller", self.settings.hot_sellers, hot=0)

    @cached_property
    def category(self) -> RowNumbers:
        """One of five."""
        return FIRST_CATEGORY_ID + self.draws.below("category", CATEGORIES)

    @cached_property
    def extra(self) -> pa.Array:
        """Fills the event up."""
        size = 6 * _WIDE + _length(self.item, self.description)
        return self.draws.filler(size, self.settings.auction_size)


class Bids(_EventsOfKind):
    """The fields of bids."""

    @cached_property
    def auction(self) -> RowNumbers:
        """One of those in flight, or mostly the hot one."""
        last = self.last_auction
        oldest = np.maximum(last - AUCTIONS_IN_FLIGHT, 0)
        any_ = oldest + self.draws.below("auction", last - oldest + 1 + ID_LEAD)
        is_hot = self.draws.below("auction.hot", self.settings.hot_auctions) > 0
        return FIRST_AUCTION_ID + np.where(is_hot, last // HOT_BATCH * HOT_BATCH, any_)

    @cached_property
    def bidder(self) -> RowNumbers:
        """A person, whose first id is added twice, as in the published generator."""
        return FIRST_PERSON_ID + self.person("bidder", self.settings.hot_bidders, hot=1)

    @cached_property
    def price(self) -> RowNumbers:
        """A price."""
        return self.draws.price("price")

    @cached_property
    def _channel(self) -> pa.Array:
        """The position of the channel: half of the bids come by one of the four hot ones."""
        hot = CHANNELS + self.draws.below("channel.which", len(HOT_CHANNELS))
        is_hot = self.draws.below("channel.hot", 2) > 0
        return pa.array(np.where(is_hot, hot, self.draws.below("channel", CHANNELS)))

    @cached_property
    def channel(self) -> pa.Array:
        """The name of the channel."""
        return _channels(self.settings.seed)[0].take(self._channel)

    @cached_property
    def url(self) -> pa.Array:
        """The address of the channel, which is always the same one."""
        return _channels(self.settings.seed)[1].take(self._channel)

    @cached_property
    def extra(self) -> pa.Array:
        """Fills the event up."""
        size = np.full(len(self.numbers), 4 * _WIDE, np.int64)
        return self.draws.filler(size, self.settings.bid_size)


def _length(*texts: pa.Array) -> RowNumbers:
    """Return the bytes of several texts together."""
    lengths = (pc.binary_length(text).to_numpy(zero_copy_only=False) for text in texts)
    found: RowNumbers = np.sum(list(lengths), axis=0, dtype=np.int64)
    return found


_ATTRIBUTES: Mapping[str, tuple[type[_EventsOfKind], Mapping[str, str]]] = {
    "person": (Persons, {"emailAddress": "email", "creditCard": "card"}),
    "auction": (Auctions, {"itemName": "item", "initialBid": "initial_bid"}),
    "bid": (Bids, {}),
}
"""Of each kind its class, and the attributes that are called otherwise than the fields."""


class EventMaker:
    """Generates events with `columns`, in this order (`RowMaker`)."""

    def __init__(self, columns: Sequence[str], settings: NexmarkSettings) -> None:
        kinds = {column.name: column.type for column in settings.columns}
        self._columns = [(name, kinds[name]) for name in columns]
        self._schema = pa.schema([arrow_field(name, kind) for name, kind in self._columns])
        self._settings = settings.events

    def make(self, start: int, stop: int) -> pa.RecordBatch:
        """Generate the events numbered [`start`, `stop`)."""
        numbers = np.arange(start, stop, dtype=np.int64)
        shares = self._settings.proportions
        position = numbers % shares.total
        kinds = (position >= shares.person).astype(np.int32) + (
            position >= shares.person + shares.auction
        )
        arrays = [
            pa.array(kinds) if name == EVENT_TYPE else self._row(name, kind, numbers, kinds)
            for name, kind in self._columns
        ]
        return batch_of(arrays, self._schema, len(numbers))

    def _row(
        self, name: str, kind: t.LogicalType, numbers: RowNumbers, kinds: npt.NDArray[np.int32]
    ) -> pa.Array:
        """Generate a column of one kind of events, which is NULL for the others."""
        assert isinstance(kind, t.RowType), "checked with the table's definition"
        is_one = kinds == list(ROWS).index(name)
        of_kind, attributes = _ATTRIBUTES[name]
        events = of_kind(self._settings, name, numbers[is_one])
        values = [_values(events, attributes, field) for field in kind.fields]
        made = pa.StructArray.from_arrays(values, fields=list(arrow_type(kind)))
        if is_one.all():
            return made
        return made.take(pa.array(np.cumsum(is_one) - 1, mask=~is_one))


def _values(events: _EventsOfKind, attributes: Mapping[str, str], field: t.RowField) -> pa.Array:
    """Generate a field."""
    if isinstance(field.type, t.TimestampType | t.TimestampLtzType):
        times = events.times if field.name == "dateTime" else getattr(events, field.name)
        return pa.array(times * 1000, pa.int64()).cast(arrow_type(field.type))
    found = getattr(events, attributes.get(field.name, field.name))
    return pa.array(found) if isinstance(found, np.ndarray) else found
