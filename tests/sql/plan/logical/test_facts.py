"""Columns and rowtimes of operators, from those of their inputs."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.sql.plan.logical.facts import (
    Column,
    Facts,
    facts_of_alias,
    facts_of_join,
    facts_of_projection,
    facts_of_temporal_join,
    facts_of_unnest,
    facts_of_windowed_aggregate,
    facts_of_windows,
    windows_of_union,
)
from tests.sql.plan.logical.operators import bid, join, project, union, values


def times(facts: Facts) -> dict[str, set[int]]:
    """The rowtimes of rows, with their scans."""
    return {time.column: set(time.sources) for time in facts.rowtimes}


def test_a_rowtime_stays_one_under_another_name() -> None:
    """A projection may rename it; what is computed of it is none."""
    assert times(project(bid(), "b.price", "ts AS at").facts) == {"at": {0}}
    assert times(project(bid(), "ts + 1 AS ts").facts) == {}
    assert times(project(bid(), "other.ts").facts) == {}


def test_a_star_that_stays_passes_every_rowtime_on() -> None:
    """The columns are unknown then, and the rowtime is not."""
    for star in (exp.Star(), exp.Column(this=exp.Star(), table=exp.to_identifier("b"))):
        assert times(facts_of_projection(bid().facts, None, [("*", star)], "b")) == {"ts": {0}}


def test_names_of_an_alias_are_by_position() -> None:
    """Where the query behind it names its columns."""
    inner = project(bid(), "price", "ts").facts

    renamed = facts_of_alias(inner, ("p", "at"), keeps_rowtimes=True)
    assert renamed.names == ("p", "at")
    assert times(renamed) == {"at": {0}}
    assert times(facts_of_alias(inner, ("p", "at"), keeps_rowtimes=False)) == {}
    assert facts_of_alias(inner, (), keeps_rowtimes=True) == inner


def test_an_alias_may_name_other_columns_than_there_are() -> None:
    """Which is refused later; the columns are those that the alias names."""
    assert facts_of_alias(bid().facts, ("a",), keeps_rowtimes=False).names == ("a",)
    unknown = facts_of_alias(Facts(columns=None), ("a",), keeps_rowtimes=True)
    assert unknown == Facts(columns=(Column(name="a"),))


def test_windows_have_a_rowtime_of_their_own() -> None:
    """The time of the window, where they are assigned by a rowtime."""
    tumbled = facts_of_windows(bid().facts, "ts")

    assert tumbled.names == (
        "auction", "price", "ts", "window_start", "window_end", "window_time",
    )  # fmt: skip
    assert times(tumbled) == {"window_time": {0}}
    assert times(facts_of_windows(bid().facts, "price")) == {}
    assert facts_of_windows(Facts(columns=None), "ts").columns is None


def test_aggregated_windows_come_behind_the_watermark() -> None:
    """So that no scan is waited for again."""
    items = values("window_time AS closed", "COUNT(*) AS n")
    columns = tuple(Column(name=name) for name, _ in items)

    by_time = facts_of_windows(bid().facts, "ts")
    assert times(facts_of_windowed_aggregate(by_time, columns, items, "w")) == {"closed": set()}
    by_price = facts_of_windows(bid().facts, "price")
    assert times(facts_of_windowed_aggregate(by_price, columns, items, "w")) == {}


def bounds(facts: Facts) -> list[tuple[set[str], set[str], set[str]]]:
    """The windows of rows: starts, ends, times."""
    return [(set(w.starts), set(w.ends), set(w.times)) for w in facts.windows]


OWN = ({"window_start"}, {"window_end"}, {"window_time"})


def test_bounds_of_windows_keep_their_place_under_other_names() -> None:
    """Where all columns are known; a window without one of its bounds is none."""
    windows = facts_of_windows(bid().facts, "ts")
    assert bounds(windows) == [OWN]
    assert windows.windows[0].sources == {0}
    assert bounds(facts_of_windows(bid().facts, "ts", follows=False)) == []
    assert bounds(facts_of_windows(bid().facts, "price")) == []

    assert bounds(facts_of_unnest(windows, ("tag",))) == [OWN]
    named = facts_of_alias(windows, ("a", "p", "ts", "s", "e", "t"), keeps_rowtimes=False)
    assert bounds(named) == [({"s"}, {"e"}, {"t"})]
    assert bounds(facts_of_alias(windows, ("a", "p"), keeps_rowtimes=False)) == []
    assert bounds(facts_of_join(windows, windows)) == []


def test_windows_pass_union_all_where_both_sides_have_them_in_the_same_columns() -> None:
    """Rows that are closed on one side wait for no watermark."""
    windows = facts_of_windows(bid().facts, "ts")
    other = facts_of_windows(bid(1).facts, "ts")
    swapped = replace(other, columns=(*other.columns[:3], *other.columns[3:][::-1]))
    closed = replace(other, windows=tuple(replace(w, sources=frozenset()) for w in other.windows))

    (both,) = windows_of_union(windows, other)
    assert both.sources == {0, 1}
    assert windows_of_union(windows, closed)[0].sources == frozenset()
    assert windows_of_union(windows, swapped) == ()
    assert windows_of_union(windows, bid().facts) == ()


def test_a_rowtime_passes_unnest_and_no_join() -> None:
    """A join may give an old row at any time; one as of a time waits for both watermarks."""
    unfolded = facts_of_unnest(bid().facts, ("tag",))
    assert unfolded.names == ("auction", "price", "ts", "tag")
    assert times(unfolded) == {"ts": {0}}
    assert facts_of_unnest(bid().facts, ()).columns is None

    joined = join(bid(), bid(1)).facts
    assert times(joined) == {}
    assert joined.names == ("auction", "price", "ts", "auction", "price", "ts")

    temporal = facts_of_temporal_join(bid().facts, bid(1).facts, frozenset({1}))
    assert times(temporal) == {"ts": {0, 1}}


def test_a_rowtime_passes_union_all_by_position() -> None:
    """Both sides have one there; of UNION no row is known to be in time."""
    one = project(bid(), "auction", "ts")

    both = union(one, project(bid(1), "auction", "ts AS at")).facts
    assert times(both) == {"ts": {0, 1}}
    assert both.names == ("auction", "ts")
    assert times(union(one, project(bid(1), "ts", "auction")).facts) == {}
    assert times(union(one, project(bid(1), "ts")).facts) == {}
    assert times(union(one, one, keeps_rowtimes=False).facts) == {}


def test_facts_tell_the_scans_of_a_rowtime() -> None:
    """None of a column that is no rowtime."""
    assert bid(3).facts.sources("ts") == {3}
    assert bid(3).facts.sources("price") is None
    assert Facts(columns=None).names is None
