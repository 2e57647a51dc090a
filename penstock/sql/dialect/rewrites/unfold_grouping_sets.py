"""Rewrite grouping sets as a plain GROUP BY: each row is repeated once per set and grouped by what the set keeps.

`SELECT a, SUM(b) FROM t GROUP BY GROUPING SETS ((a), ())` becomes

SELECT CASE WHEN s IN (0) THEN a END AS a, SUM(b) FROM t CROSS JOIN UNNEST(ARRAY[0, 1]) AS sets (s)
GROUP BY CASE WHEN s IN (0) THEN a END, s

so that streams need nothing new. Aggregates read the columns as they are. (Flink's DecomposeGroupingSetsRule
puts an Expand below the aggregate, which repeats the columns that aggregates read.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.catalog.errors import DefinitionError
from penstock.sql.dialect.flink.trees import to_text
from penstock.sql.dialect.windows.grouping_sets import (
    GROUP_ID,
    SEVERAL_SETS,
    GroupingSets,
    grouping_sets_of,
    is_grouping_call,
)
from penstock.sql.syntax.positions import position_as, span_of
from penstock.sql.syntax.traversal import all_nodes, copy_tree, find_nodes

BELOW_GROUPS = (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.Query, exp.DataType, exp.Interval)
"""What is not looked into: aggregates read rows that are not grouped yet."""

Instead = Callable[[exp.Expr], exp.Expr | None]
"""Gives what stands for a node; None where it stays, and what is below it is asked for."""


def grouping_calls(select: exp.Select) -> Iterator[exp.Expr]:
    """The calls of GROUPING and its like that a SELECT itself has, behind its GROUP BY."""
    for name in ("expressions", "having", "qualify", "order"):
        clause = select.args.get(name)
        for node in clause if isinstance(clause, list) else [clause]:
            pending = [] if node is None else [node]
            while pending:
                found = pending.pop(0)
                if is_grouping_call(found):
                    yield found
                elif not isinstance(found, BELOW_GROUPS):
                    pending += found.iter_expressions()
                elif _is_over(found):
                    pending += _called(found).iter_expressions()


def replace_item(item: exp.Expr, instead: Instead) -> None:
    """Replace what is in an item of the SELECT; it keeps the name that it has without one."""
    if isinstance(item, exp.Alias):
        replace_nodes(item.this, instead)
        return
    name = item.name if isinstance(item, exp.Column) else to_text(item)
    select, index = item.parent, item.index
    assert select is not None
    assert index is not None, "it is one of a list"
    before = to_text(item)
    replace_nodes(item, instead)
    now = select.expressions[index]
    if to_text(now) != before:
        now.replace(exp.alias_(copy_tree(now), name, quoted=True))


def replace_nodes(
    node: exp.Expr, instead: Instead, names: frozenset[str] | set[str] = frozenset()
) -> None:
    """Replace nodes, outer ones first; `names` are of columns that are those of the result (ORDER BY)."""
    if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name in names:
        return
    found = instead(node)
    if found is not None:
        node.replace(found)
        return
    if isinstance(node, BELOW_GROUPS):
        if not _is_over(node):
            return
        node = _called(node)
    for child in list(node.iter_expressions()):
        replace_nodes(child, instead, names)


def _called(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Filter) else node


def _is_over(node: exp.Expr) -> bool:
    """Return whether an aggregate is one of OVER, which is calculated behind GROUP BY."""
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


SETS, SET = "__sets", "__set"
"""The relation that unfolds a row, and its column: the number of the set."""

WHICH_SET = "the grouping set"
"""What the number of the set is called in messages."""

TEXT = "penstock.key_text"
"""On a grouping key that was made: what it stands for, in the words of the query."""

TELLING = "penstock.telling_calls"
"""On the number of the set as a grouping key: the calls that tell it where they are selected."""

DETERMINED = "penstock.key_determined"
"""On a grouping key that has one value for each value of the others: it need not be known to tell groups apart."""

DESCRIBED = "penstock.grouping_sets"
"""On the UNNEST that unfolds the rows: the sets, as text."""


def unfold_grouping_sets(query: exp.Expr) -> None:
    """Rewrite all grouping sets of a query, and of those inside it, in place; its nodes have their types.

    Raises DefinitionError for GROUPING of what is not grouped by, UnsupportedError for too many sets.
    """
    if any(isinstance(node, SEVERAL_SETS) or is_grouping_call(node) for node in all_nodes(query)):
        for select in find_nodes(query, exp.Select):
            _unfold(select)


def unfold_group_ids(query: exp.Expr) -> None:
    """Rewrite those of the SELECTs that call GROUP_ID, which Spark has not; else as unfold_grouping_sets."""
    if any(_is_group_id(node) for node in all_nodes(query)):
        for select in find_nodes(query, exp.Select):
            if any(map(_is_group_id, grouping_calls(select))):
                _unfold(select)


def key_text(key: exp.Expr) -> str:
    """Write a grouping key as the query has it."""
    text: str | None = key.meta_get(TEXT)
    return text or to_text(key)


def telling_calls(key: exp.Expr) -> str | None:
    """Name the calls that tell which set a row is of; None for a key that is not the set."""
    calls: str | None = key.meta_get(TELLING)
    return calls


def is_determined(key: exp.Expr) -> bool:
    """Return whether the other grouping keys determine one."""
    return bool(key.meta_get(DETERMINED))


def described_sets(query: exp.Expr) -> list[str]:
    """Return the grouping sets of a query that was rewritten, a text for each GROUP BY: (a, b), (a), ().

    Without the columns that all sets of one have.
    """
    found = (node.meta_get(DESCRIBED) for node in find_nodes(query, exp.Unnest))
    return [text for text in found if text]


def _is_group_id(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == GROUP_ID


def _unfold(select: exp.Select) -> None:
    calls, group = list(grouping_calls(select)), select.args.get("group")
    if group is None:
        for call in calls:
            raise DefinitionError(
                f"{to_text(call)} needs a GROUP BY",
                hint="GROUP BY ROLLUP (a, b)",
                span=span_of(call),
            )
        return
    if calls or group.find(*SEVERAL_SETS):
        _Unfolding(select=select, sets=grouping_sets_of(select)).run()


# --- one SELECT ---


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unfolding:
    select: exp.Select
    sets: GroupingSets

    def run(self) -> None:
        """Rewrite the SELECT."""
        if len(self.sets.sets) > 1:
            self.select.append("joins", exp.Join(this=self._unnest(), kind="CROSS"))
        group = self._group()
        for item in list(self.select.expressions):
            replace_item(item, self._instead)
        aliases = {item.alias_or_name for item in self.select.expressions}
        for name in ("having", "qualify", "order", "windows"):
            clause = self.select.args.get(name)
            for node in clause if isinstance(clause, list) else [clause]:
                if node is not None:
                    replace_nodes(node, self._instead, aliases if name == "order" else frozenset())
        self.select.set("group", exp.Group(expressions=group) if group else None)

    def _unnest(self) -> exp.Unnest:
        sets = self.sets
        texts = (", ".join(map(to_text, self._own_keys(one_set))) for one_set in sets.sets)
        numbers = exp.Array(expressions=[_number(n) for n in range(len(sets.sets))])
        numbers.type = exp.DataType.build("ARRAY<INT>")
        unnest = exp.Unnest(
            expressions=[numbers],
            alias=exp.TableAlias(
                this=exp.to_identifier(SETS, quoted=True),
                columns=[exp.to_identifier(SET, quoted=True)],
            ),
            offset=False,
        )
        unnest.meta[DESCRIBED] = ", ".join(f"({text})" for text in texts)
        return unnest

    def _own_keys(self, one_set: frozenset[int]) -> list[exp.Expr]:
        """The keys of a set that another one leaves out."""
        sets = self.sets
        return [sets.keys[index] for index in sorted(one_set) if not sets.is_everywhere(index)]

    def _group(self) -> list[exp.Expr]:
        """The keys of the plain GROUP BY: those of the sets, and which set it is."""
        sets = self.sets
        shared = [n for n in range(len(sets.keys)) if sets.is_everywhere(n)]
        rest = [n for n in range(len(sets.keys)) if n not in shared]
        keys = [sets.keys[n] for n in shared]
        if len(sets.sets) == 1:
            return keys
        for index in rest:
            key = self._key_in_set(index)
            key.meta[TEXT] = to_text(sets.keys[index])
            if isinstance(sets.keys[index], exp.Literal):
                key.meta[DETERMINED] = True
            keys.append(key)
        number, telling = _set_column(), self._telling()
        number.meta[TEXT] = WHICH_SET
        number.meta[TELLING] = self._telling_calls(rest)
        if telling:
            number.meta[DETERMINED] = True
        return [*keys, *telling, number]

    def _telling_calls(self, numbers: Sequence[int]) -> str:
        """What can be selected to tell the sets apart."""
        calls = (
            [f"GROUPING_ID({', '.join(to_text(self.sets.keys[n]) for n in numbers)})"]
            if numbers
            else []
        )
        if len(set(self.sets.sets)) < len(self.sets.sets):
            calls.append("GROUP_ID()")
        return " and ".join(calls)

    def _telling(self) -> list[exp.Expr]:
        """Calls of GROUPING and its like that are selected and tell the sets apart; none where they do not."""
        known: dict[str, tuple[int, ...]] = {}
        calls: dict[str, exp.Expr] = {}
        for item in self.select.expressions:
            call = item.unalias()
            if is_grouping_call(call):
                calls[to_text(call)] = call
                known[to_text(call)] = self.sets.values(call)
        alone = [[text] for text, values in known.items() if _are_distinct([values])]
        for chosen in (*alone, list(known)):
            if _are_distinct([known[text] for text in chosen]):
                found = [self._value(calls[text]) for text in chosen]
                for text, key in zip(chosen, found, strict=True):
                    key.meta[TEXT] = text
                return found
        return []

    def _instead(self, node: exp.Expr) -> exp.Expr | None:
        """What stands for a key or a call behind the GROUP BY; None where that is the node itself."""
        if is_grouping_call(node):
            return position_as(self._value(node), node)
        index = self.sets.position(node)
        whole = isinstance(node.parent, exp.Select | exp.Alias)
        if index is None or self.sets.is_everywhere(index):
            return None
        if isinstance(node, exp.Literal) and not whole:
            return None  # the 2 of ROUND(x, 2) is not the constant that is grouped by
        return position_as(self._key_in_set(index), node)

    def _key_in_set(self, index: int) -> exp.Expr:
        """The key where its set keeps it; else NULL."""
        key = self.sets.keys[index]
        numbers = [n for n, one_set in enumerate(self.sets.sets) if index in one_set]
        value = exp.Case(ifs=[exp.If(this=_is_in(numbers), true=copy_tree(key))])
        value.type = key.type
        return value

    def _value(self, call: exp.Expr) -> exp.Expr:
        """What a call of GROUPING says, by the number of the set."""
        by_value: dict[int, list[int]] = {}
        for number, value in enumerate(self.sets.values(call)):
            by_value.setdefault(value, []).append(number)
        *most, last = by_value
        found: exp.Expr = _number(last)
        if most:
            ifs = [exp.If(this=_is_in(by_value[value]), true=_number(value)) for value in most]
            found = exp.Case(ifs=ifs, default=found)
            found.type = exp.DataType.build("BIGINT" if max(by_value) > _INT_MAX else "INT")
        written = exp.cast(found, exp.DType.BIGINT)
        written.type = exp.DataType.build("BIGINT")
        return written


_INT_MAX = 2**31 - 1


def _are_distinct(values: Sequence[tuple[int, ...]]) -> bool:
    """Return whether no two sets have the same values."""
    rows = list(zip(*values, strict=True))
    return bool(rows) and len(set(rows)) == len(rows)


def _number(value: int) -> exp.Expr:
    number = exp.Literal.number(value)
    number.type = exp.DataType.build("BIGINT" if value > _INT_MAX else "INT")
    return number


def _set_column() -> exp.Column:
    column = exp.column(SET, table=SETS, quoted=True)
    column.type = exp.DataType.build("INT")
    return column


def _is_in(numbers: Sequence[int]) -> exp.In:
    test = exp.In(this=_set_column(), expressions=[_number(n) for n in numbers])
    test.type = exp.DataType.build("BOOLEAN")
    return test
