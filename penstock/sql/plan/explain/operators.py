"""Name the operators of a plan, and write what each of them computes in the words of the query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.facts import Item
from penstock.sql.plan.rules.aggregate import own_aggregates

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")

Detail = str | int | bool | None | Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorWords:
    """An operator's name, what it computes as one text, and the parts of that by name."""

    name: str
    text: str = ""
    details: Mapping[str, Detail] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The name and the text."""
        if not self.text:
            return self.name
        return f"{self.name}{'' if self.text.startswith((':', ',')) else ' '}{self.text}"


def operator_words(node: nodes.Node) -> OperatorWords:
    """Write an operator."""
    match node:
        case (
            nodes.Scan()
            | nodes.SubqueryAlias()
            | nodes.Values()
            | nodes.TableFunction()
            | nodes.Opaque()
            | nodes.Refused()
        ):
            return _of_relation(node)
        case nodes.WindowAssign():
            return _of_window(node)
        case nodes.Unnest(call=call, alias=alias, names=names, outer=outer):
            text = unnest_text(call, alias, names)
            return OperatorWords(
                name="Unnest",
                text=f"LEFT {text}" if outer else text,
                details={
                    "call": plain_text(_bare(call)),
                    "alias": alias or None,
                    "columns": names or None,
                },
            )
        case nodes.Filter(condition=condition, clause=clause):
            text = plain_text(condition)
            return OperatorWords(
                name="Filter", text=text, details={"condition": text, "clause": clause.value}
            )
        case nodes.Project(items=items, block=block):
            written = ", ".join(map(_listed, block.select.expressions))
            return OperatorWords(name="Project", text=written, details={"values": _items(items)})
        case nodes.Aggregate():
            return _of_aggregate(node)
        case nodes.Distinct():
            return OperatorWords(name="Distinct")
        case nodes.TopN():
            return _of_top_n(node)
        case nodes.Over(calls=calls):
            values = tuple(dict.fromkeys(map(plain_text, calls)))
            return OperatorWords(name="Over", text=", ".join(values), details={"calls": values})
        case nodes.Limit(order=order, limit=limit, offset=offset, fetch=fetch):
            parts = [plain_text(part).strip() for part in (order, limit, offset, fetch) if part]
            return OperatorWords(name="Limit", text=" ".join(parts), details={"clauses": parts})
        case nodes.Join() | nodes.LookupJoin() | nodes.TemporalJoin():
            return _of_join(node)
        case nodes.SetOp(kind=kind, all=keeps):
            every = "ALL" if keeps else "DISTINCT"
            return OperatorWords(name=kind.value.capitalize(), text=every, details={"all": keeps})
        case _:
            assert_never(node)


def short_table(text: str) -> str:
    """Write the names of tables in a text without the default catalog and database."""
    return text.replace("default_catalog.default_database.", "")


def _of_relation(
    node: nodes.Scan
    | nodes.SubqueryAlias
    | nodes.Values
    | nodes.TableFunction
    | nodes.Opaque
    | nodes.Refused,
) -> OperatorWords:
    match node:
        case nodes.Scan(table=table):
            return OperatorWords(name="Scan", text=short_table(table), details={"table": table})
        case nodes.SubqueryAlias(alias=alias, names=names):
            columns = f" ({', '.join(names)})" if names else ""
            return OperatorWords(
                name="SubqueryAlias",
                text=f"{alias}{columns}",
                details={"alias": alias, "columns": names or None},
            )
        case nodes.Values():
            return OperatorWords(name="Values")
        case nodes.TableFunction(call=call):
            text = plain_text(_bare(call))
            return OperatorWords(name="TableFunction", text=text, details={"call": text})
        case nodes.Opaque(syntax=syntax):
            text = "" if syntax is None else plain_text(syntax)
            return OperatorWords(name="Query", text=text, details={"query": text})
        case nodes.Refused():
            raise AssertionError("what is refused has no physical plan")
        case _:
            assert_never(node)


def unnest_text(call: exp.Expr, alias: str, names: Sequence[str]) -> str:
    """Return UNNEST, or another function in FROM, with the names of its columns."""
    columns = f" ({', '.join(names)})" if names else ""
    return f"{plain_text(_bare(call))}{f' AS {alias}{columns}' if alias else ''}"


def _bare(call: exp.Expr) -> exp.Expr:
    """Return a function in FROM without its alias."""
    bare = call.copy()
    bare.set("alias", None)
    return bare


def _of_window(node: nodes.WindowAssign) -> OperatorWords:
    lengths = {
        "size": node.size_ms or None,
        "slide": node.slide_ms,
        "step": node.step_ms,
        "gap": node.gap_ms,
        "offset": node.offset_ms or None,
    }
    durations = {word: _duration(value) for word, value in lengths.items() if value is not None}
    text = ", ".join((node.time_column, *(f"{word} {value}" for word, value in durations.items())))
    if node.partition_by:
        text += f", by {', '.join(node.partition_by)}"
    return OperatorWords(
        name="WindowAssign",
        text=f"{node.kind} {text}",
        details={
            "kind": node.kind.value,
            "time": node.time_column,
            **durations,
            "by": node.partition_by or None,
        },
    )


def _duration(milliseconds: int) -> str:
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds % length == 0:
            return f"{milliseconds // length} {unit}"
    return f"{milliseconds} ms"


def _items(items: Sequence[Item]) -> tuple[str, ...]:
    """Write output columns: a value, and its name where that says more. Stars are written out."""
    return tuple(
        plain_text(value)
        if isinstance(value, exp.Column) and value.name == name
        else f"{plain_text(value)} AS {name}"
        for name, value in items
    )


def _listed(item: exp.Expr) -> str:
    value = item.unalias()
    same = isinstance(value, exp.Column) and value.name == item.alias_or_name
    return plain_text(value if same else item)


def plain_text(value: exp.Expr) -> str:
    """Write an expression; names that the planner made, and not the query, without quotes where they need none."""
    bare = value.copy()
    for name in bare.find_all(exp.Identifier):
        if "start" not in name.meta and _PLAIN.fullmatch(name.name):
            name.set("quoted", False)
    return to_text(bare)


def _of_aggregate(node: nodes.Aggregate) -> OperatorWords:
    keys = tuple(key.text for key in node.keys)
    values = tuple(dict.fromkeys(map(plain_text, own_aggregates(node.block.select))))
    having = None if node.having is None else plain_text(node.having)
    text = f"by {', '.join(keys)}" if keys else ""
    if values:
        text += f": {', '.join(values)}"
    if having is not None:
        text += f", having {having}"
    return OperatorWords(
        name="Aggregate",
        text=text,
        details={
            "by": keys,
            "values": values,
            "having": having,
            "grouping_sets": node.grouping_sets,
        },
    )


def _of_top_n(node: nodes.TopN) -> OperatorWords:
    function, by = plain_text(node.function), tuple(map(plain_text, node.partition))
    order = tuple(map(plain_text, node.order))
    each = f" of each {', '.join(by)}" if by else ""
    return OperatorWords(
        name="TopN",
        text=f"{function} <= {node.limit}{each}, order by {', '.join(order)}",
        details={
            "function": function,
            "limit": node.limit,
            "by": by,
            "order": order,
            "number": node.shown if node.shows_number else None,
        },
    )


def _of_join(node: nodes.Join | nodes.LookupJoin | nodes.TemporalJoin) -> OperatorWords:
    kind: str = node.kind.value
    match node:
        case nodes.Join(kind=nodes.JoinType.OTHER, text=text):
            kind = text.removesuffix(" JOIN")
        case _:
            pass
    on = _conditions(node)
    using = tuple(node.using)
    text = f"{kind} on {' AND '.join(on)}" if on else kind
    if using:
        text = f"{kind} using {', '.join(using)}"
    details: dict[str, Detail] = {"kind": kind, "on": on, "using": using or None}
    match node:
        case nodes.Join(bound=bound):
            words = _BOUND_WORDS[bound]
            details["bound"] = None if bound is nodes.JoinBound.NONE else bound.value
            return OperatorWords(name="Join", text=f"{text}{words}", details=details)
        case nodes.LookupJoin():
            return OperatorWords(name="LookupJoin", text=text, details=details)
        case nodes.TemporalJoin(version=version):
            at = plain_text(version)
            details["at"] = at
            return OperatorWords(name="TemporalJoin", text=f"{text}, as of {at}", details=details)
        case _:
            assert_never(node)


_BOUND_WORDS = {
    nodes.JoinBound.NONE: "",
    nodes.JoinBound.INTERVAL: "; bounded by an interval",
    nodes.JoinBound.WINDOW: "; bounded by windows",
}


def _conditions(node: nodes.Join | nodes.LookupJoin | nodes.TemporalJoin) -> tuple[str, ...]:
    match node:
        case nodes.Join(pairs=pairs, rest=rest):
            equal = (f"{plain_text(one)} = {plain_text(two)}" for one, two in pairs)
            return (*equal, *map(plain_text, rest))
        case nodes.LookupJoin(on=on):
            return () if on is None else (plain_text(on),)
        case nodes.TemporalJoin(conditions=conditions):
            return tuple(map(plain_text, conditions))
        case _:
            assert_never(node)
