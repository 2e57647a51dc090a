"""The contract of keyed operators, of every one of them: replays, batches without rows, retractions.

`CONTRACTS` has a context for each class; one that is new fails here until it has one.
"""

from __future__ import annotations

import inspect
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import import_module
from pkgutil import iter_modules

import pyarrow as pa
import pytest

from penstock.catalog.errors import InputError
from penstock.connector.changelog import ROW_KIND
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.incremental import keyed
from penstock.sql.incremental.keyed.accumulate import AccumulateInserts
from penstock.sql.incremental.keyed.append_join import AppendJoin
from penstock.sql.incremental.keyed.choose import keyed_operator
from penstock.sql.incremental.keyed.one_row import BestRow, NormalizeUpserts
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedOperator, RunBySpark
from penstock.sql.incremental.keyed.over import OverFrames, OverTotals
from penstock.sql.incremental.keyed.recompute import RecomputeKeys
from penstock.sql.incremental.keyed.temporal_join import JoinVersions
from penstock.sql.incremental.keyed.windows import AggregatePanes, AggregateWindows
from penstock.sql.incremental.stages import ChangelogNormalize
from tests.sql.incremental.keyed import (
    test_append_join,
    test_over,
    test_panes,
    test_temporal_join,
    test_windows,
)
from tests.sql.incremental.keyed.event_time_bucket import EventTimeBucket, at, ms
from tests.sql.incremental.keyed.oracle import rows_in, some_fast
from tests.sql.incremental.keyed.test_accumulate import CASES as ACCUMULATED
from tests.sql.incremental.keyed.test_accumulate import accumulating
from tests.sql.incremental.keyed.test_one_row import ORDERS, best_row
from tests.sql.incremental.keyed.test_operators import (
    AFTER,
    BEFORE,
    CASES,
    COLUMNS,
    DELETE,
    FAST,
    INSERT,
    Bucket,
    Changes,
    MemoryState,
    Row,
    bytes_of,
    joined,
    operator_of,
)
from tests.sql.maintain.driven import operators_of, planned

Batch = tuple[Mapping[str, Sequence[Row]], int | None]
"""The changes of a batch by input, their kind last, and its watermark in seconds; None: nothing waits."""


@dataclass(frozen=True, kw_only=True)
class Contract:
    """An operator, the columns of its inputs, and batches for it."""

    operator: KeyedOperator
    schemas: Mapping[str, pa.Schema]
    batches: Sequence[Batch]

    def opened(self) -> Running:
        """Return a run over an empty state."""
        layouts = self.operator.layouts
        return Running(contract=self, states={n: MemoryState(of) for n, of in layouts.items()})


@dataclass
class Running:
    """An operator and its state, as of a batch."""

    contract: Contract
    states: dict[str, MemoryState]
    number: int = 0
    before: int | None = None

    def copied(self) -> Running:
        """Return a run that begins here, as one that takes the batch up again."""
        states = {name: replace(s, written=list(s.written)) for name, s in self.states.items()}
        return replace(self, states=states)

    def give(self, changes: Mapping[str, Sequence[Row]], upto: int | None) -> pa.Table:
        """Run the next batch."""
        given = {
            name: rows_in(self.contract.schemas[name].append(KIND), rows)
            for name, rows in changes.items()
        }
        found = self.contract.operator.run(given, self.states, self.batch(upto))
        self.number, self.before = self.number + 1, upto
        return found

    def batch(self, upto: int | None) -> KeyedBatch:
        """Return the values of the next batch; each source has the same watermark."""
        span = Watermarks(before_ms=[ms(self.before)] * 2, now_ms=[ms(upto)] * 2)
        return KeyedBatch(batch_id=self.number, now_ms=self.number * 1000, watermarks=span)

    def written(self) -> list[tuple[int, bytes]]:
        """Return the number of batches in each state, and what is in the file of the last one."""
        return [bytes_of(state) for state in self.states.values()]

    def kept(self) -> list[Counter[Row]]:
        """Return what is left of each state."""
        return [state.counts() for state in self.states.values()]


KIND = pa.field(ROW_KIND, pa.int8())


# --- a context for each operator ---


def of_rows(operator: KeyedOperator, *, inserts: bool) -> Contract:
    """A context over tables of random rows, whatever their time."""
    names = sorted({name for name in operator.layouts if name in ("a", "b")})
    tables = {name: Changes(n, inserts=inserts) for n, name in enumerate(names)}
    batches = [({name: of.batch(40) for name, of in tables.items()}, None) for _ in range(3)]
    return Contract(operator=operator, schemas=dict.fromkeys(names, COLUMNS), batches=batches)


def normalizing() -> NormalizeUpserts:
    """Upserts by `k`."""
    stage = ChangelogNormalize(name="s", input="a", key=("k",))
    operator = keyed_operator(stage, {"a": COLUMNS, "s": COLUMNS}, 0)
    assert isinstance(operator, NormalizeUpserts)
    return operator


def of_times(bucket: EventTimeBucket, *batches: Batch) -> Contract:
    """A context of an operator whose rows wait for the watermark."""
    return Contract(operator=bucket.operator, schemas=bucket.schemas, batches=batches)


def orders(*rows: tuple[str | None, int, int | None, int]) -> dict[str, list[Row]]:
    """Rows for OVER: currency, second, amount, number."""
    return {"feed_0": [(k, at(second), *more, INSERT) for k, second, *more in rows]}


OVER = (
    (orders(("EUR", 1, 5, 1), ("USD", 2, 1, 2), ("EUR", 9, 9, 3), (None, 3, None, 4)), 3),
    (orders(("EUR", 7, 1, 5), ("USD", 9, 9, 6), ("EUR", 2, 1, 7)), 8),
    (orders(("EUR", 12, -3, 8)), 20),
)


def versioned() -> Contract:
    """Orders with the rates of their time."""

    def rate(currency: str, value: int | None, second: int, kind: int) -> Row:
        return (currency, value, at(second), kind)

    def order(number: int, currency: str, second: int) -> Row:
        return (number, currency, at(second), INSERT)

    return of_times(
        test_temporal_join.joined("LEFT JOIN"),
        (
            {
                "feed_0": [rate("EUR", 1, 1, INSERT), rate("USD", 7, 2, INSERT)],
                "feed_1": [order(1, "EUR", 2), order(2, "YEN", 9)],
            },
            3,
        ),
        ({"feed_0": [rate("EUR", 2, 5, AFTER)], "feed_1": [order(3, "EUR", 6)]}, 7),
        ({"feed_0": [rate("USD", None, 11, DELETE)], "feed_1": [order(4, "USD", 12)]}, 20),
    )


def windowed() -> Contract:
    """Aggregates of windows over rows that come and go."""
    bucket = test_windows.windows("COUNT(*), SUM(total)", [pa.int64(), pa.int64()])
    (rows,) = bucket.schemas

    def row(end: int, total: int, kind: int) -> Row:
        return (*test_windows.row(end, "EUR", total), kind)

    return of_times(
        bucket,
        ({rows: [row(10, 1, INSERT), row(10, 2, INSERT), row(20, 5, INSERT)]}, 3),
        ({rows: [row(10, 1, BEFORE), row(10, 3, AFTER), row(20, 5, DELETE)]}, 12),
        ({rows: [row(20, 7, INSERT), row(10, 9, INSERT)]}, 30),
    )


def paned() -> Contract:
    """Aggregates of windows over the groups of panes."""
    bucket = test_panes.panes("hop")
    (name,) = bucket.schemas
    first = test_panes.floor(at(20), 2, 0)

    def group(second: int, total: int) -> Row:
        return ("EUR", first + timedelta(seconds=second), 2, total, 1, 3, 2, INSERT)

    return of_times(
        bucket,
        ({name: [group(0, 4), group(2, 5)]}, 19),
        ({name: [group(2, 1), group(4, 9)]}, 24),
        ({name: [group(6, 2)]}, 60),
    )


def ended() -> Contract:
    """A join of rows that end with the watermark, where those without a match come then."""
    bucket = test_append_join.joined("FULL")

    def rows(
        numbers: Sequence[tuple[int, int]], rates: Sequence[tuple[int, int]]
    ) -> dict[str, list[Row]]:
        given = [test_append_join.order(number, second) for number, second in numbers]
        quotes: list[Row] = [("EUR", rate, at(second)) for rate, second in rates]
        return test_append_join.feeds_of(bucket, given, quotes)

    return of_times(
        bucket,
        (rows([(1, 2), (2, 40)], [(7, 5)]), 3),
        (rows([(3, 9)], [(8, 41)]), 12),
        (rows([], [(9, 60)]), 90),
    )  # fmt: skip


CONTRACTS = {
    "recompute": of_rows(operator_of(CASES["LEFT JOIN"].stage), inserts=False),
    "sets": of_rows(operator_of(CASES["INTERSECT ALL"].stage), inserts=False),
    "normalize": of_rows(normalizing(), inserts=True),
    "best row": of_rows(best_row(ORDERS["the last by time"], ("k",)), inserts=True),
    "accumulate": of_rows(accumulating(ACCUMULATED["FILTER"], ("k",)), inserts=True),
    "join of inserts": of_rows(
        operator_of(joined("INNER", inserts=True).stage, inserts=True), inserts=True
    ),
    "join in time": ended(),
    "over frames": of_times(test_over.CASES["rows"].opened(), *OVER),
    "over an interval": of_times(test_over.CASES["an interval"].opened(), *OVER),
    "over totals": of_times(test_over.CASES["totals"].opened(), *OVER),
    "temporal join": versioned(),
    "windows": windowed(),
    "panes": paned(),
}
RETRACTING = {RecomputeKeys, NormalizeUpserts, JoinVersions, AggregateWindows}
"""Those whose rows are updated and deleted; others get inserts alone (`test_others_get_inserts_alone`)."""
INSERTS = {AppendJoin, BestRow, AccumulateInserts, OverFrames, OverTotals, AggregatePanes}


def classes() -> Iterator[type]:
    """The operators: classes of these modules that have what a KeyedOperator has."""
    for module in iter_modules(keyed.__path__, f"{keyed.__name__}."):
        if module.ispkg:
            continue
        for name, found in inspect.getmembers(import_module(module.name), inspect.isclass):
            own = found.__module__ == module.name and not getattr(found, "_is_protocol", False)
            if own and all(hasattr(found, part) for part in ("layouts", "ordered", "run")):
                assert not name.startswith("_")
                yield found


def test_every_operator_has_a_context() -> None:
    """And it is known of each whether rows are taken back."""
    found = set(classes())

    assert {type(of.operator) for of in CONTRACTS.values()} == found
    assert found == RETRACTING | INSERTS
    assert not RETRACTING & INSERTS


# --- replays, and batches without rows ---


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_replay_gives_the_same_bytes(name: str) -> None:
    """Of changes and of state, each batch from the state before it; something comes of them."""
    running, rows = CONTRACTS[name].opened(), 0
    for changes, upto in CONTRACTS[name].batches:
        again = running.copied()
        found, same = running.give(changes, upto), again.give(changes, upto)
        rows += found.num_rows

        assert found.equals(same)
        assert running.written() == again.written()
    assert rows > 1
    assert any(number for number, _ in running.written())


@pytest.mark.parametrize("name", CONTRACTS)
def test_an_empty_batch_costs_nothing(name: str) -> None:
    """Nothing is looked up or written, also behind others, and the result has the columns of any other."""
    contract = CONTRACTS[name]
    running = contract.opened()
    for changes, upto in [({}, None), *contract.batches]:
        found = running.give(changes, upto)
        lookups, written = running_lookups(running), running.written()
        none = running.give({}, upto)
        empty = running.give(dict.fromkeys(contract.schemas, ()), upto)

        assert none.num_rows == empty.num_rows == 0
        assert none.schema == empty.schema == found.schema
        assert (running_lookups(running), running.written()) == (lookups, written)
    assert running_lookups(running) > 0


def running_lookups(running: Running) -> int:
    """Return how often states were looked up."""
    return sum(state.looked_up for state in running.states.values())


# --- retractions ---

OPPOSITE = {INSERT: DELETE, AFTER: DELETE, DELETE: INSERT, BEFORE: INSERT}


def retracted(changes: Sequence[Row]) -> list[Row]:
    """Return changes that undo others."""
    return [(*row[:-1], OPPOSITE[row[-1]]) for row in reversed(changes)]


@pytest.mark.parametrize("name", some_fast((n for n in CASES if not CASES[n].inserts), FAST))
def test_retractions_undo_what_was_recomputed(name: str) -> None:
    """State and answer are those of before, and so is all that comes of later batches."""
    stage = CASES[name].stage
    operator = operator_of(stage)
    bucket, other = Bucket(operator), Bucket(operator)
    tables = {one.name: Changes(n, inserts=False) for n, one in enumerate(stage.inputs)}
    first = {table: of.batch(10) for table, of in tables.items()}
    bucket.give(**first)
    other.give(**first)
    known = {table: Counter(of.rows) for table, of in tables.items()}
    gone = {table: of.batch(10) for table, of in tables.items()}
    bucket.give(**gone)
    bucket.give(**{table: retracted(changes) for table, changes in gone.items()})

    assert bucket.rows == other.rows
    for one, two in zip(bucket.states.values(), other.states.values(), strict=True):
        assert one.counts() == two.counts()
    for table, of in tables.items():
        of.rows = known[table]
    later = {table: of.batch(10) for table, of in tables.items()}
    assert bucket.give(**later) == other.give(**later)


def test_upserts_undo_upserts() -> None:
    """The row of before again, or a delete of a row that was not there."""
    bucket, draw = Bucket(normalizing()), random.Random(4)

    def row(key: int, value: int) -> Row:
        return (key, value, None, None, None, None)

    known = {key: row(key, draw.randrange(9)) for key in (1, 2, 3)}
    bucket.give(a=[(*one, AFTER) for one in known.values()])
    rows, state = Counter(bucket.rows), bucket.states["a"].counts()
    bucket.give(a=[(*row(1, 77), AFTER), (*row(4, 5), INSERT), (*row(2, 0), DELETE)])
    assert bucket.rows != rows
    bucket.give(a=[(*known[1], AFTER), (*row(4, 0), DELETE), (*known[2], INSERT)])

    assert bucket.rows == rows
    assert bucket.states["a"].counts() == state == Counter(known.values())


def test_retractions_undo_rows_of_open_windows() -> None:
    """They are aggregated as if they had not come, and nothing of them is stored."""
    contract = CONTRACTS["windows"]
    running, other = contract.opened(), contract.opened()
    changes, upto = contract.batches[0]
    running.give(changes, upto)
    other.give(changes, upto)
    (rows,) = contract.schemas
    gone = [(*test_windows.row(end, "EUR", 6), INSERT) for end in (10, 20, 30)]
    running.give({rows: gone}, upto)
    assert running.kept() != other.kept()
    running.give({rows: retracted(gone)}, upto)
    other.give({}, upto)
    other.give({}, upto)

    assert running.kept() == other.kept()
    closed = running.give({}, 50)
    assert closed.equals(other.give({}, 50))
    assert closed.num_rows == 2


def test_a_delete_undoes_the_first_version_of_a_key() -> None:
    """Rows find none from then on, as before; what is stored is that there is none."""
    contract = CONTRACTS["temporal join"]
    running, other = contract.opened(), contract.opened()
    changes, upto = contract.batches[0]
    running.give(changes, upto)
    other.give(changes, upto)
    running.give({"feed_0": [("YEN", 5, at(8), INSERT)]}, upto)
    running.give({"feed_0": [("YEN", 5, at(8), DELETE)]}, upto)
    other.give({}, upto)
    other.give({}, upto)
    later = {"feed_1": [(5, "YEN", at(12), INSERT), (6, "EUR", at(12), INSERT)]}
    found = running.give(later, 20)

    # the order of YEN in the first batch waits for it, too
    assert found.equals(other.give(later, 20))
    assert found.num_rows == 3
    versions = set(running.states["feed_0"].counts())
    valid = {row for row in versions if row[3] != DELETE}
    assert valid == set(other.states["feed_0"].counts())
    assert {row[0] for row in versions - valid} == {"YEN"}


NUMBERED = "SELECT {1}, id, ROW_NUMBER() OVER (PARTITION BY {1} ORDER BY ts) AS n FROM {0}"
OF_INSERTS = {
    "SELECT a.id, b.id FROM {0} AS a JOIN {0} AS b ON a.{1} = b.{1}": AppendJoin,
    f"SELECT {{1}}, id FROM ({NUMBERED}) WHERE n = 1": BestRow,
    "SELECT {1}, COUNT(DISTINCT id) FROM {0} GROUP BY {1}": AccumulateInserts,
    "SELECT id, SUM(id) OVER (PARTITION BY {1} ORDER BY ts) FROM {0}": OverTotals,
    "SELECT id, LAG(id) OVER (PARTITION BY {1} ORDER BY ts) FROM {0}": OverFrames,
}


@pytest.mark.parametrize("sql", OF_INSERTS)
@pytest.mark.parametrize("table", ["cdc", "latest"])
def test_others_get_inserts_alone(sql: str, table: str) -> None:
    """Over rows that are updated another operator runs the same query, or it is refused."""
    assert OF_INSERTS[sql].__name__ in operators_of(planned(sql.format("events", "k")))
    asked = sql.format(table, "region")
    if "OVER (PARTITION BY region ORDER BY ts) FROM" in asked:
        with pytest.raises(InputError):
            planned(asked)
    else:
        assert not {of.__name__ for of in INSERTS} & set(operators_of(planned(asked)))


def test_panes_get_inserts_alone() -> None:
    """Windows over rows that are updated are aggregated row by row."""
    windows = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
    counts = (
        "SELECT {0}, COUNT(*) AS n, window_start AS s, window_end AS e FROM {1} "
        "GROUP BY {0}, window_start, window_end"
    )
    of_inserts = counts.format("k", windows.format("events"))
    joining = "SELECT a.n FROM ({0}) AS a JOIN ({0}) AS b ON a.k = b.k AND a.s = b.s AND a.e = b.e"

    assert "AggregatePanes" in operators_of(planned(joining.format(of_inserts)))
    of_changes = counts.format("region", windows.format("latest"))
    assert operators_of(planned(of_changes)).count("AggregateWindows") == 1
    assert "AggregatePanes" not in operators_of(planned(of_changes))


def test_what_a_context_runs_is_a_keyed_operator() -> None:
    """None is left to Spark."""
    assert not any(isinstance(of.operator, RunBySpark) for of in CONTRACTS.values())
