"""Read a table once for several inputs of stages: their queries as one over its rows.

What a checkpoint is compared with has a query for each input; Spark would read the table, and decode its records, for
each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.expressions.expression import find_nondeterministic
from penstock.sql.incremental.planning.relation import column
from penstock.sql.incremental.planning.stage_list import (
    input_row,
    input_select,
    union_of,
    with_rows,
)
from penstock.sql.incremental.stages import (
    INPUT_INDEX,
    PaneAggregate,
    Stage,
    StreamInput,
    inputs_of,
)
from penstock.sql.plan.clauses.joins import find_column
from penstock.sql.plan.logical.facts import own_names
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.traversal import conjuncts

_PARTS = {"expressions", "from_", "where"}
"""The clauses of a query whose rows are those of its relation, one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanQuery:
    """A query over the rows of one table: the values of its columns, and the conditions that all hold."""

    scan: ScanTable
    values: Mapping[str, exp.Expr]
    conditions: tuple[exp.Expr, ...]

    @property
    def condition(self) -> exp.Expr:
        """The conditions as one."""
        return exp.and_(*(one.copy() for one in self.conditions)) if self.conditions else exp.true()

    def is_part_of(self, other: ScanQuery) -> bool:
        """Return whether another query has the same rows, and among its columns those of this one."""
        if self.scan.scan != other.scan.scan or _texts(self.conditions) != _texts(other.conditions):
            return False
        shown = dict(zip(other.values, _texts(other.values.values()), strict=True))
        own = zip(self.values, _texts(self.values.values()), strict=True)
        return all(shown.get(name) == text for name, text in own)


def _texts(values: Iterable[exp.Expr]) -> list[str]:
    """Write values, whether their names are quoted or not."""
    copies = [value.copy() for value in values]
    for identifier in (one for copied in copies for one in copied.find_all(exp.Identifier)):
        identifier.set("quoted", True)
    return [to_text(copied) for copied in copies]


def combine_inputs(queries: Sequence[exp.Query], feeds: Sequence[StreamInput]) -> exp.Query:
    """Return the query of `union_inputs`, which reads a table once for all inputs that only select from its rows.

    Tables come in the same order, by which a checkpoint knows them.
    """
    found = {
        index: scanned
        for index, (query, feed) in enumerate(zip(queries, feeds, strict=True))
        if feed.changes is ChangelogMode.INSERT_ONLY
        and (scanned := read_scan_query(query)) is not None
    }
    readers: dict[int, dict[int, ScanQuery]] = defaultdict(dict)
    for index, scanned in found.items():
        readers[scanned.scan.scan][index] = scanned
    parts: list[exp.Query] = []
    for index, query in enumerate(queries):
        together = readers[found[index].scan.scan] if index in found else {}
        if len(together) < 2:
            parts.append(input_select(query, feeds, index))
        elif index == min(together):
            parts.append(_combined(together, feeds))
    return union_of(parts)


def share_inputs(
    queries: Sequence[exp.Query], feeds: Sequence[StreamInput], stages: Sequence[Stage]
) -> tuple[list[exp.Query], list[StreamInput], list[Stage]]:
    """Let panes be grouped from the rows of another input, where that has the same rows, and their columns.

    Inputs that no stage reads then are gone.
    """
    scanned = [
        read_scan_query(query) if feed.changes is ChangelogMode.INSERT_ONLY else None
        for query, feed in zip(queries, feeds, strict=True)
    ]
    found: dict[str, str] = {}
    for one, feed in zip(scanned, feeds, strict=True):
        wider = (
            other.name
            for two, other in zip(scanned, feeds, strict=True)
            if one is not None
            and two is not None
            and other is not feed
            and other.name not in found
            and one.is_part_of(two)
        )
        if (name := next(wider, None)) is not None:
            found[feed.name] = name
    shared = [
        replace(stage, input=found.get(stage.input, stage.input))
        if isinstance(stage, PaneAggregate)
        else stage
        for stage in stages
    ]
    read = {name for stage in shared for name in inputs_of(stage)}
    remaining = [n for n, feed in enumerate(feeds) if feed.name in read or feed.name not in found]
    return [queries[n] for n in remaining], [feeds[n] for n in remaining], shared


def scan_conditions(
    queries: Sequence[exp.Query], feeds: Sequence[StreamInput]
) -> Mapping[int, tuple[tuple[exp.Expr, ...], ...]]:
    """Return the conditions of each input over a table, by the scan, where all of its inputs only select rows of it."""
    found: dict[int, list[tuple[exp.Expr, ...]]] = defaultdict(list)
    others: set[int] = set()
    for query, feed in zip(queries, feeds, strict=True):
        scanned = read_scan_query(query) if feed.changes is ChangelogMode.INSERT_ONLY else None
        if scanned is not None:
            found[scanned.scan.scan].append(scanned.conditions)
        else:
            others |= {node.scan for node in query.find_all(ScanTable)}
    return {scan: tuple(every) for scan, every in found.items() if scan not in others}


def read_scan_query(query: exp.Expr) -> ScanQuery | None:
    """Return a query over one table as values and conditions over its rows; None for any other."""
    while isinstance(query, exp.Subquery) and set(_filled(query)) <= {"this"}:
        query = query.this
    if not isinstance(query, exp.Select) or not set(_filled(query)) <= _PARTS:
        return None
    from_, where = query.args.get("from_"), query.args.get("where")
    below = None if from_ is None else _relation(from_.this)
    if below is None:
        return None
    items = below.all_columns(query.expressions)
    own = [*items, *([] if where is None else [where.this])]
    if any(one.find(exp.Star, exp.Query, exp.AggFunc, exp.Window) for one in own):
        return None
    if any(True for one in own for _ in find_nondeterministic(one)):
        return None
    values = [below.rewritten(item.unalias()) for item in items]
    tests = [below.rewritten(test) for test in conjuncts(where)]
    known = [value for value in (*values, *tests) if value is not None]
    names = own_names(items)
    if len(known) < len(values) + len(tests) or len(set(names)) < len(names):
        return None
    return ScanQuery(
        scan=below.scan,
        values=dict(zip(names, known, strict=False)),
        conditions=(*below.conditions, *known[len(values) :]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relation:
    """What stands in FROM: `values` by relation and column; None where columns are those of the table."""

    scan: ScanTable
    values: Mapping[tuple[str, str], exp.Expr] | None
    conditions: tuple[exp.Expr, ...] = ()

    def all_columns(self, items: list[exp.Expr]) -> list[exp.Expr]:
        """Return a SELECT list, that of a bare star as columns where these are known."""
        match items:
            case [exp.Star() as star] if self.values is not None and not any(star.args.values()):
                return [column(name, relation) for relation, name in self.values]
            case _:
                return items

    def rewritten(self, value: exp.Expr) -> exp.Expr | None:
        """Return an expression over the columns of the table; None where a name is not known."""
        unknown = False

        def own(node: exp.Expr) -> exp.Expr:
            nonlocal unknown
            if not isinstance(node, exp.Column):
                return node
            found = self._own(node)
            unknown |= found is None
            return node if found is None else found

        written = value.copy().transform(own)
        return None if unknown else written

    def _own(self, node: exp.Column) -> exp.Expr | None:
        if self.values is None:
            return _of_table(self.scan, node)
        found = find_column(self.values, node)
        if found is None:
            return None
        value, fields = found
        own: exp.Expr = value.copy()
        for name in fields:
            own = exp.Dot(this=own, expression=exp.to_identifier(name, quoted=True))
        own.type = node.type
        return own if isinstance(own, exp.Column | exp.Dot) else exp.paren(own, copy=False)


def _relation(node: exp.Expr) -> _Relation | None:
    if isinstance(node, ScanTable):
        alias = node.args.get("alias")
        plain = set(_filled(node)) <= {"this", "db", "catalog", "scan", "alias"}
        if not plain or (alias is not None and alias.columns):
            return None
        return _Relation(scan=node, values=None)
    if not isinstance(node, exp.Subquery) or not set(_filled(node)) <= {"this", "alias"}:
        return None
    alias = node.args.get("alias")
    inner = read_scan_query(node.this)
    if inner is None or (alias is not None and alias.columns):
        return None
    name = node.alias_or_name
    values = {(name, column): value for column, value in inner.values.items()}
    return _Relation(scan=inner.scan, values=values, conditions=inner.conditions)


def _filled(node: exp.Expr) -> Iterator[str]:
    return (name for name, part in node.args.items() if part)


def _of_table(scan: ScanTable, node: exp.Column) -> exp.Expr | None:
    """Return a column without the name of its table, which the combined query does not give; None where it has more."""
    first, *rest = node.parts
    if not rest or first.name not in (scan.alias_or_name, scan.name):
        return node
    if first.name != scan.alias_or_name:
        return None
    own: exp.Expr = exp.Column(this=rest[0].copy())
    for part in rest[1:]:
        own = exp.Dot(this=own, expression=part.copy())
    own.type = node.type
    return own


def _combined(together: Mapping[int, ScanQuery], feeds: Sequence[StreamInput]) -> exp.Select:
    """Write the query whose rows are those of several inputs."""
    scan = next(iter(together.values())).scan.copy()
    scan.set("alias", None)
    rows = {
        index: input_row([(name, scanned.values[name]) for name in feeds[index].columns])
        for index, scanned in together.items()
    }
    tests = {index: scanned.condition for index, scanned in together.items()}
    if _are_apart(together.values()):
        select = exp.select().from_(scan, copy=False)
        number = _case({index: (test, _number(index)) for index, test in tests.items()})
        any_of = exp.or_(*(test.copy() for test in tests.values()))
        select.set("where", exp.Where(this=any_of))
    else:
        select = _unfolded(scan, tests, rows)
        number = column(INPUT_INDEX)
        tests = {
            index: exp.EQ(this=column(INPUT_INDEX), expression=_number(index)) for index in together
        }
    structs = {index: _case({index: (tests[index], rows[index])}) for index in together}
    return with_rows(select, feeds, number, structs)


def _unfolded(
    scan: ScanTable, tests: Mapping[int, exp.Expr], rows: Mapping[int, exp.Expr]
) -> exp.Select:
    """Write a query with a row of the table for each input that it belongs to, whose number is the first column."""
    numbers = [_case({index: (test, _number(index))}) for index, test in tests.items()]
    every = exp.Anonymous(
        this="explode", expressions=[exp.Anonymous(this="array", expressions=numbers)]
    )
    names = dict.fromkeys(
        node.parts[0].name for row in rows.values() for node in row.find_all(exp.Column)
    )
    inner = exp.select(
        exp.alias_(every, INPUT_INDEX, quoted=True), *(column(name) for name in names)
    ).from_(scan, copy=False)
    there = exp.Not(this=exp.Is(this=column(INPUT_INDEX), expression=exp.null()))
    select = exp.select().from_(inner.subquery("unfolded"), copy=False)
    select.set("where", exp.Where(this=there))
    return select


def _case(values: Mapping[int, tuple[exp.Expr, exp.Expr]]) -> exp.Expr:
    found = exp.Case()
    for test, value in values.values():
        found.append("ifs", exp.If(this=test.copy(), true=value))
    return found


def _number(index: int) -> exp.Expr:
    return exp.cast(exp.Literal.number(index), exp.DType.INT)


def _are_apart(queries: Iterable[ScanQuery]) -> bool:
    """Return whether no row is one of two queries: they compare a value with different literals."""
    compared = [dict(_compared(one)) for one in queries]
    return all(
        any(text in right and right[text] != literal for text, literal in left.items())
        for left, right in combinations(compared, 2)
    )


def _compared(query: ScanQuery) -> Iterator[tuple[str, str | int]]:
    """Iterate over the values that are compared with a literal of their own kind, and the literals.

    Different literals may be equal to one value where either is cast: '01' and '1' to a number, 1 and 1.4 to a text.
    """
    for test in query.conditions:
        if not isinstance(test, exp.EQ) or not isinstance(test.expression, exp.Literal):
            continue
        kind, literal = test.this.type, test.expression
        if kind is None:
            continue
        if literal.is_string and kind.this in exp.DataType.TEXT_TYPES:
            # a CHAR is compared without the spaces behind it
            yield to_text(test.this), literal.name.rstrip()
        elif literal.is_int and kind.this in exp.DataType.SIGNED_INTEGER_TYPES:
            yield to_text(test.this), int(literal.name)
