"""Deduplication and Top-N: Flink's ROW_NUMBER() OVER (PARTITION BY k ORDER BY t) <= n, its bound and its ties.

In Spark's update mode numbers are never retracted over inserts: row 3 of a key is replaced by another row 3, so
(key, number) is the key of the result; `plan/spark_text/top_n.py` writes it. Over changes, and of inserts where one row
of a key is kept, a stage numbers rows: `incremental/planning/top_n.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.connector.scan import ARRIVED
from penstock.sql.dialect import to_text, window_tables
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS, is_windowing
from penstock.sql.plan.logical.facts import TieBreak
from penstock.sql.plan.rules.changelog_project import QualifiedRelation, expanded
from penstock.sql.plan.rules.flow import Flow, OperatorKind, ScanFlow, UpdatingOperator
from penstock.sql.plan.rules.joins import is_null_filled
from penstock.sql.plan.rules.top_n_bound import bound_of_no_row, read_bound
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import find_nodes, from_items

# --- queries that number rows ---

MAX_ROWS = 10_000
"""Most rows of a key that are kept: each change sends all of them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNumberQuery:
    """A query that numbers rows, and the bound of its reader: `limit` is the highest number that may pass.

    `select` has the projection `item`, an OVER under the name `name`; `subquery` is `select` as the reader names it,
    and the number `shown`. `rest` is the WHERE of the reader without the bound; None where that was all of it.
    """

    select: exp.Select
    subquery: exp.Subquery
    item: exp.Alias
    shown: str
    limit: int
    rest: exp.Where | None = field(compare=False)

    @property
    def name(self) -> str:
        """The column of the row number."""
        return self.item.alias

    @property
    def window(self) -> exp.Window:
        """The OVER."""
        assert isinstance(self.item.this, exp.Window)
        return self.item.this

    @property
    def ties(self) -> bool:
        """Whether ties have one number: RANK and DENSE_RANK."""
        return isinstance(self.window.this, exp.Rank | exp.DenseRank)

    def is_by_arrival(self, proctimes: frozenset[str]) -> bool:
        """Return whether rows are in order of arrival: by the column of these that is PROCTIME(), or the call."""
        order = self.window.args.get("order")
        first = order.expressions[0].this if order is not None and order.expressions else None
        return is_processing_time(first, proctimes)


def is_processing_time(order: exp.Expr | None, proctimes: frozenset[str]) -> bool:
    """Return whether a value of ORDER BY is PROCTIME(): the call, or a column of these that are."""
    if isinstance(order, exp.Anonymous):
        return order.name.upper() == "PROCTIME"
    return isinstance(order, exp.Column) and order.name in proctimes


def find_row_number(where: exp.Where | None, source: exp.Expr) -> RowNumberQuery | None:
    """Find a ROW_NUMBER, RANK or DENSE_RANK in a relation, with its bound in `where`, the WHERE of its reader.

    None also for a number without a bound, or beside another OVER: that is an ordinary OVER aggregate. The bound of a
    relation whose rows an outer join fills with NULLs stays in the WHERE, too: NULLs do not pass it.
    """
    found = _find_numbering(source)
    if found is None:
        return None
    subquery, select, item = found
    shown = _shown_name(subquery, select, item)
    bound = read_bound(where, (source.alias, shown), stays=is_null_filled(source))
    if bound is None:
        return None
    limit, rest = bound
    return RowNumberQuery(
        select=select, subquery=subquery, item=item, shown=shown, limit=limit, rest=rest
    )


def refuse_no_row(tree: exp.Expr) -> Refusal | None:
    """Refuse numbers of rows whose bound none has: Flink's "Rank end should not less than zero"."""
    for reader in find_nodes(tree, exp.Select):
        for source in from_items(reader):
            found = _find_numbering(source)
            if found is None:
                continue
            subquery, select, item = found
            number_column = (source.alias, _shown_name(subquery, select, item))
            bound = bound_of_no_row(reader.args.get("where"), number_column)
            if bound is not None:
                return Refusal(
                    message=f"no row passes {to_text(bound)}: {to_text(item.this.this)} numbers rows from 1",
                    hint=f"WHERE {number_column[1]} <= 1 takes the first row of each key",
                    span=span_of(bound),
                )
    return None


def _find_numbering(source: exp.Expr) -> tuple[exp.Subquery, exp.Select, exp.Alias] | None:
    """Find the only OVER of a relation, which numbers rows, with the query that it stands in."""
    if not isinstance(source, exp.Subquery) or not isinstance(source.this, exp.Select):
        return None
    select = source.this
    items = [
        i for i in select.expressions if isinstance(i, exp.Alias) and isinstance(i.this, exp.Window)
    ]
    if len(items) != 1:
        return None
    (item,) = items
    numbers = isinstance(item.this.this, exp.RowNumber | exp.Rank | exp.DenseRank)
    return (source, select, item) if numbers else None


def check_limit(numbered: RowNumberQuery) -> Refusal | None:
    """Refuse a bound that keeps too many rows."""
    if numbered.limit <= MAX_ROWS:
        return None
    return Refusal(
        message=f"the {numbered.limit} best rows of each key are more than the {MAX_ROWS} that are kept",
        span=span_of(numbered.item if numbered.rest is None else numbered.rest),
    )


def check_row_number(numbered: RowNumberQuery) -> Refusal | None:
    """Refuse a query that numbers rows and does more than that."""
    select = numbered.select
    for part in ("group", "having", "distinct", "order", "limit", "qualify"):
        if select.args.get(part) is not None:
            return Refusal(
                message=f"a query that numbers rows of a stream cannot have {part.upper()} of its own",
                hint="number the rows of a plain SELECT",
                span=span_of(numbered.item),
            )
    return None


def _shown_name(source: exp.Subquery, select: exp.Select, item: exp.Alias) -> str:
    """Return the row number's name outside the subquery, which may rename its columns."""
    columns, items = source.alias_column_names, select.expressions
    index = items.index(item)
    if any(other.is_star for other in items[:index]):
        if any(other.is_star for other in items[index:]):
            return item.alias  # how many columns stand before it is unknown
        index += len(columns) - len(items)
    return columns[index] if 0 <= index < len(columns) else item.alias


# --- update mode ---

TIMES = (exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ, exp.DType.DATE)
NUMBERS = exp.DataType.NUMERIC_TYPES


def top_n_flow(
    numbered: RowNumberQuery, relations: list[QualifiedRelation], source: Flow
) -> Flow | Refusal:
    """Return the flow of a query that numbers rows in update mode. `source` is the flow of its FROM clause."""
    if (refusal := _check(numbered, source)) is not None:
        return refusal
    select, item = numbered.select, numbered.item
    items = expanded(select, relations)
    if isinstance(items, Refusal):
        return items
    columns = [i for i in items if i is not item]
    if any(not i.alias_or_name for i in columns):
        return Refusal(
            message="a column of a query that numbers rows has no name", span=span_of(select)
        )
    key = _key(numbered, columns)
    if isinstance(key, Refusal):
        return key
    if (refusal := _check_order(numbered)) is not None:
        return refusal
    one = numbered.limit == 1
    way = OperatorKind.TOP_N
    if one:
        way = OperatorKind.LAST_ROW if is_downwards(numbered) else OperatorKind.FIRST_ROW
    identity = key if one else (*key, numbered.name)
    state = "the whole row" if one else f"the {numbered.limit} best rows, whole"
    return Flow(
        columns=tuple(i.alias_or_name for i in items),
        changes=ChangelogMode.UPSERT,
        key=identity,
        constants=frozenset({numbered.name}) if one else frozenset(),
        mechanism=UpdatingOperator(way=way, key=identity, state=state, span=span_of(item)),
    )


def _check(numbered: RowNumberQuery, source: Flow) -> Refusal | None:
    if numbered.ties:
        return Refusal(
            message=f"{to_text(numbered.window.this)} of a stream is not supported in Spark's update mode",
            hint="use ROW_NUMBER()",
            span=span_of(numbered.item),
        )
    if source.is_changing:
        return Refusal(
            message="ROW_NUMBER over rows that are updated or deleted is not supported: when a row goes, the next one "
            "is not kept",
            hint="write the changes into a Delta table with a PRIMARY KEY, and number the rows of that table",
            span=span_of(numbered.item),
        )
    return check_row_number(numbered)


# --- key and order ---


def _key(numbered: RowNumberQuery, columns: list[exp.Expr]) -> tuple[str, ...] | Refusal:
    """Name the columns that PARTITION BY is of."""
    found: list[str] = []
    for part in numbered.window.args.get("partition_by") or []:
        name = _key_name(part, columns)
        if name is None:
            return Refusal(
                message=f"PARTITION BY {to_text(part)} is not selected, so that updates of a key cannot find its rows",
                hint="select it, and make it part of the target's PRIMARY KEY",
                span=span_of(part),
            )
        found.append(name)
    return tuple(found)


def _key_name(part: exp.Expr, columns: list[exp.Expr]) -> str | None:
    for item in columns:
        value = item.unalias()
        if value == part:
            return str(item.alias_or_name)
        if not isinstance(value, exp.Column) or not isinstance(part, exp.Column):
            continue
        if value.name == part.name and len({value.table, part.table} - {""}) < 2:
            return str(item.alias_or_name)
    return None


def is_downwards(numbered: RowNumberQuery) -> bool:
    """Return whether the greatest value is the first."""
    return is_descending(numbered.window.args["order"].expressions[0])


def is_descending(part: exp.Ordered) -> bool:
    """Return whether a value of ORDER BY is in descending order."""
    return bool(part.args.get("desc"))


def _check_order(numbered: RowNumberQuery) -> Refusal | None:
    order = numbered.window.args.get("order")
    if order is None or not order.expressions:
        return Refusal(
            message="ROW_NUMBER without ORDER BY is not supported", span=span_of(numbered.item)
        )
    downwards = is_downwards(numbered)
    for part in order.expressions:
        if bool(part.args.get("nulls_first")) == is_descending(part):
            return Refusal(
                message="NULLS FIRST and NULLS LAST against the usual order (NULL is the smallest) are not supported "
                "in a stream",
                hint="order by COALESCE(...)",
                span=span_of(part),
            )
        if is_descending(part) != downwards and in_reverse(part.this) is None:
            return Refusal(
                message=f"ORDER BY mixes ASC and DESC, and {to_text(part.this)} cannot be turned round",
                hint="order by columns of one direction; numbers and times may have the other",
                span=span_of(part),
            )
    return None


def in_reverse(value: exp.Expr) -> exp.Expr | None:
    """Return a value whose order is the reverse; None where there is none."""
    if value.is_type(*NUMBERS) and not value.is_type(exp.DType.TINYINT, exp.DType.SMALLINT):
        # 0 - x would overflow at the smallest number of a type
        whole = value.is_type(exp.DType.INT, exp.DType.BIGINT)
        operand = exp.paren(value.copy())
        return exp.BitwiseNot(this=operand) if whole else exp.Neg(this=operand)
    if value.is_type(*TIMES):
        micros = exp.cast(value.copy(), exp.DType.TIMESTAMPLTZ)
        return exp.Neg(this=exp.Anonymous(this="unix_micros", expressions=[micros]))
    return None


# --- ties ---


def winner(numbered: RowNumberQuery, tables: Sequence[ScanFlow]) -> TieBreak:
    """Return which of the tied rows is taken."""
    order = numbered.window.args.get("order")
    parts = order.expressions if order is not None else []
    if numbered.limit > 1 or len(parts) != 1 or not parts[0].args.get("desc"):
        return TieBreak.FIRST
    (by,) = parts
    is_time = isinstance(by.this, exp.Column) and _is_rowtime(
        numbered.select, by.this.name, tables, inside=True
    )
    return TieBreak.LAST if is_time else TieBreak.FIRST


def carry_arrival(select: exp.Select) -> None:
    """Give FROM the column ARRIVED, in place: each of its rows is that of a record (`TopN.by_record`)."""
    pending: list[exp.Expr] = [select.args["from_"].this]
    while pending:
        match pending.pop():
            case ScanTable() as table:
                table.set("arrives", True)
            case exp.Table() as function:
                pending.append(window_tables(function)[0].input)
            case exp.Select() as inner:
                pending.append(inner.args["from_"].this)
                # a star has it with the others
                if not any(item.find(exp.Star) for item in inner.expressions):
                    inner.append("expressions", exp.column(ARRIVED, quoted=True))
            case exp.Union() as union:
                pending += [union.this, union.expression]
            case query:
                pending.append(query.this)


def _joins(select: exp.Select) -> bool:
    return bool(select.args.get("joins") or select.args.get("laterals"))


# --- rowtimes ---


def _is_rowtime(
    node: exp.Expr, name: str, tables: Sequence[ScanFlow], *, inside: bool = False
) -> bool:
    """Return whether a column of a relation is a time attribute of event time; `inside`: of the FROM of a SELECT.

    The windows of TABLE(TUMBLE(...)) keep the rowtime a time attribute for deduplication (WindowDeduplicate).
    """
    match node:
        case ScanTable():
            return tables[node.scan].rowtime == name and not node.alias_column_names
        case exp.Table() if is_windowing(node):
            (window, *_) = window_tables(node)
            inner = window.time_column if name == WINDOW_COLUMNS[-1] else name
            return not node.alias_column_names and _is_rowtime(window.input, inner, tables)
        case exp.Subquery():
            return not node.alias_column_names and _is_rowtime(node.this, name, tables)
        case exp.Union() if not node.args.get("distinct"):
            return all(_is_rowtime(side, name, tables) for side in (node.this, node.expression))
        case exp.Select() if node.args.get("from_") is not None and not _joins(node):
            if node.args.get("group") is not None or node.args.get("distinct") is not None:
                return False
            behind = name if inside else _column_behind(node, name)
            return behind is not None and _is_rowtime(node.args["from_"].this, behind, tables)
        case _:
            return False


def _column_behind(select: exp.Select, name: str) -> str | None:
    """Return the column that a SELECT gives as `name`."""
    for item in select.expressions:
        value = item.unalias()
        if item.alias_or_name == name and not isinstance(value, exp.Star):
            plain = isinstance(value, exp.Column) and not isinstance(value.this, exp.Star)
            return str(value.name) if plain else None
    return name if any(item.find(exp.Star) for item in select.expressions) else None
