"""Finds the columns of plain queries by itself, and their types: most of those that a file has.

Plain is a SELECT of tables and of such SELECTs, joined ON conditions, with every name in just one of them. For the
rest, and wherever something may be wrong, there is sqlglot's qualifier (`columns.py`), which takes a query apart
several times; the two agree on whatever this one answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.annotate_types import TypeAnnotator
from sqlglot.schema import MappingSchema

from penstock.sql.binding.checked_query import CheckedQuery, Columns, Output
from penstock.sql.dialect.flink.trees import FLINK
from penstock.sql.syntax.traversal import all_nodes

PARTS = ("expressions", "from_", "joins", "where", "group", "having")
JOIN_PARTS = ("this", "on", "side", "kind")
JOINS = ("", "INNER", "OUTER", "CROSS")
OTHER_NODES = (exp.Query, exp.Dot, exp.Lambda, exp.UDTF, exp.Pseudocolumn)
"""What has columns of its own, or may take a column apart."""

NO_TABLES = MappingSchema(dialect=FLINK, normalize=False)
"""Types that an annotator knows, set by column (`set_type`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plain:
    """A plain SELECT: its relations by their aliases, and the columns that it names, each with the alias of its own."""

    select: exp.Select
    sources: Mapping[str, Columns | _Plain]
    columns: tuple[tuple[exp.Column, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of its columns, as sqlglot's qualifier names those without an alias."""
        if isinstance(self.select.selects[0], exp.Star):
            (source,) = self.sources.values()
            inner = source.names if isinstance(source, _Plain) else tuple(source)
            return (*inner, *(item.alias_or_name for item in self.select.selects[1:]))
        return tuple(
            item.output_name or f"_col_{index}" for index, item in enumerate(self.select.selects)
        )


def check_plain_columns(stand_in: exp.Expr, checking: CheckedQuery) -> Output | None:
    """Type the nodes of a plain query and return its columns; None for any other, which is not changed."""
    plain = None if checking.unsure else _read(stand_in, checking)
    if plain is None:
        return None
    annotator = TypeAnnotator(NO_TABLES)
    kinds = _typed(plain, annotator)
    annotator.annotate(stand_in, annotate_scope=False)
    for node in all_nodes(stand_in):
        original = checking.origin(node)
        if isinstance(node, exp.DataType):
            continue
        if original is None or not _is_known(node):
            # as it was: a CAST without a type of its own still has that which it names
            node._type = None if original is None else original._type  # noqa: SLF001
        else:
            original.type = node.type
    return tuple(zip(plain.names, kinds, strict=True))


# --- is it plain? ---


def _read(select: exp.Expr, checking: CheckedQuery) -> _Plain | None:
    """The SELECT with its columns resolved; None if it is not plain, or a name is nowhere or in several relations."""
    if not isinstance(select, exp.Select) or _has_more(select, PARTS):
        return None
    sources = _sources(select, checking)
    nodes = _expressions(select)
    if sources is None or nodes is None or not _are_plain_items(select, len(sources)):
        return None
    columns: list[tuple[exp.Column, str]] = []
    for node in nodes:
        if isinstance(node, exp.Column):
            alias = _alias_of(node, sources)
            if alias is None:
                return None
            columns.append((node, alias))
    plain = _Plain(select=select, sources=sources, columns=tuple(columns))
    return None if _hides(plain) else plain


def _has_more(node: exp.Expr, parts: tuple[str, ...]) -> bool:
    return any(value and key not in parts for key, value in node.args.items())


def _sources(select: exp.Select, checking: CheckedQuery) -> dict[str, Columns | _Plain] | None:
    sources: dict[str, Columns | _Plain] = {}
    from_, joins = select.args.get("from_"), select.args.get("joins") or ()
    if from_ is None or any(not _is_plain_join(join) for join in joins):
        return None
    for node in (from_.this, *(join.this for join in joins)):
        alias = node.args.get("alias")
        name = alias.name if isinstance(alias, exp.TableAlias) and not alias.columns else ""
        source = _source(node, checking)
        if not name or name in sources or source is None:
            return None
        sources[name] = source
    return sources


def _is_plain_join(join: exp.Expr) -> bool:
    return not _has_more(join, JOIN_PARTS) and join.text("kind").upper() in JOINS


def _source(node: exp.Expr, checking: CheckedQuery) -> Columns | _Plain | None:
    if _has_more(node, ("this", "alias")):
        return None
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        return checking.relations.get(node.name)
    if not isinstance(node, exp.Subquery):
        return None
    inner = _read(node.this, checking)
    return None if inner is None or len(set(inner.names)) < len(inner.names) else inner


def _expressions(select: exp.Select) -> list[exp.Expr] | None:
    """The nodes of all expressions of a SELECT; None if there is more in them than functions of columns."""
    trees = [*select.selects, *(join.args.get("on") for join in select.args.get("joins") or ())]
    trees += [part.this for part in (select.args.get(key) for key in ("where", "having")) if part]
    group = select.args.get("group")
    if group is not None:
        if _has_more(group, ("expressions",)):
            return None
        trees += group.expressions
        if any(isinstance(key, exp.Literal) for key in group.expressions):
            return None  # the number of a column
    nodes = [node for tree in trees if tree is not None for node in all_nodes(tree)]
    return None if any(isinstance(node, OTHER_NODES) for node in nodes) else nodes


def _are_plain_items(select: exp.Select, relations: int) -> bool:
    """Return whether the columns of a SELECT have names, or can be given some; `*` is plain in
    front, over one relation.
    """
    items = select.selects
    stars = [item for item in items if item.is_star]
    if not stars:
        return bool(items)
    plain = len(stars) == 1 and isinstance(items[0], exp.Star) and not _has_more(items[0], ())
    return plain and relations == 1 and all(isinstance(item, exp.Alias) for item in items[1:])


def _alias_of(column: exp.Column, sources: Mapping[str, Columns | _Plain]) -> str | None:
    """The relation that a column is of; None if that is not sure."""
    if not isinstance(column.this, exp.Identifier) or column.args.get("db"):
        return None
    table = column.table
    if table:
        return table if table in sources and _holds(sources[table], column.name) else None
    holders = [alias for alias, source in sources.items() if _holds(source, column.name)]
    return holders[0] if len(holders) == 1 else None


def _holds(source: Columns | _Plain, name: str) -> bool:
    return name in (source.names if isinstance(source, _Plain) else source)


def _hides(plain: _Plain) -> bool:
    """Return whether a name is ambiguous between a column and an alias of the SELECT itself."""
    aliases = {
        item.alias
        for item in plain.select.selects
        if isinstance(item, exp.Alias)
        and not (isinstance(item.this, exp.Column) and item.this.name == item.alias)
    }
    return any(column.name in aliases and not column.table for column, _ in plain.columns)


# --- its types ---


def set_type(annotator: TypeAnnotator, column: exp.Column, kind: exp.DataType | None) -> None:
    """Set the type of a column for an annotator, None where unknown, so that it need not resolve it."""
    annotator._set_type(column, kind)  # noqa: SLF001 - what it does with the types of a schema


def _typed(plain: _Plain, annotator: TypeAnnotator) -> list[exp.DataType | None]:
    """Type the nodes of a plain SELECT, those of its relations first; returns the types of its columns."""
    known = {alias: _columns(source, annotator) for alias, source in plain.sources.items()}
    for column, alias in plain.columns:
        set_type(annotator, column, known[alias][column.name])
    annotator.annotate_expression(plain.select)
    items = plain.select.selects
    kinds = [item.type if _is_known(item) else None for item in items]
    if isinstance(items[0], exp.Star):
        (source,) = known.values()
        kinds[:1] = source.values()
    return kinds


def _columns(source: Columns | _Plain, annotator: TypeAnnotator) -> Columns:
    if not isinstance(source, _Plain):
        return source
    return dict(zip(source.names, _typed(source, annotator), strict=True))


def _is_known(node: exp.Expr) -> bool:
    kind = node.type
    return kind is not None and kind.this is not exp.DType.UNKNOWN
