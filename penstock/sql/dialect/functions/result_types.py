"""Types of results that are made of the types of arguments: constructors, and functions of arrays and maps.

What a function of the table returns whatever it is given is in its row; sqlglot finds the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

YEARS = ("YEAR", "QUARTER", "MONTH")


def field_name(index: int) -> str:
    """The name of a field of ROW(...) that has none, counted from 0 (Calcite's SqlUtil.deriveAliasFromOrdinal)."""
    return f"EXPR${index}"


def row_type(items: Sequence[exp.Expr]) -> exp.DataType | None:
    """The type of ROW(items); None unless those of all items are known."""
    kinds = [_kind(item) for item in items]
    if any(kind is None for kind in kinds):
        return None
    fields = [
        exp.ColumnDef(this=exp.to_identifier(field_name(index), quoted=True), kind=kind)
        for index, kind in enumerate(kinds)
    ]
    return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)


def interval_type(node: exp.Interval) -> exp.DataType:
    """The type of an interval written out: of months or of milliseconds."""
    unit = node.args["unit"]
    first = (unit.this if isinstance(unit, exp.IntervalSpan) else unit).name.upper()
    family = "YEAR TO MONTH" if first in YEARS else "DAY TO SECOND"
    return exp.DataType(this=exp.DType.INTERVAL, expressions=[exp.var(family)])


def made_type(name: str, arguments: Sequence[exp.Expr]) -> exp.DataType | None:
    """The type of a call whose type hangs on those of its arguments; None where it is not known.

    `name` is in upper case.
    """
    if name == "ROW":
        return row_type(arguments)
    if name == "MAP" and len(arguments) > 1:  # a map whatever it holds: [...] of one takes a key
        unknown = exp.DataType(this=exp.DType.UNKNOWN)
        key, value = (_kind(argument) or unknown.copy() for argument in arguments[:2])
        return _map(key, value)
    rule = RULES.get(name)
    kinds = [_kind(argument) for argument in arguments]
    if rule is None or not kinds:
        return None
    known = [kind for kind in kinds if kind is not None]
    return rule(known) if len(known) == len(kinds) else None


def _kind(node: exp.Expr) -> exp.DataType | None:
    """A type of its own for a tree, so that no two trees share one."""
    if isinstance(node, exp.Distinct) and len(node.expressions) == 1:
        return _kind(node.expressions[0])
    if isinstance(node, exp.Literal) and not node.is_string and not node.is_int:
        return _number(node.name)
    kind = node.type
    sure = kind is not None and all(
        part.this != exp.DType.UNKNOWN for part in kind.find_all(exp.DataType)
    )
    return kind.copy() if kind is not None and sure else None


def _number(text: str) -> exp.DataType:
    """Of 1.50 a DECIMAL(3, 2), which sqlglot takes for a DOUBLE; of 1.5E0 a DOUBLE."""
    if "e" in text.lower():
        return exp.DataType(this=exp.DType.DOUBLE)
    whole, _, rest = text.partition(".")
    digits = (len(whole.lstrip("0")) + len(rest), len(rest))
    sizes = [exp.DataTypeParam(this=exp.Literal.number(max(n, 0))) for n in digits]
    return exp.DataType(this=exp.DType.DECIMAL, expressions=sizes)


def _array(kind: exp.DataType) -> exp.DataType:
    return exp.DataType(this=exp.DType.ARRAY, expressions=[kind], nested=True)


def _map(key: exp.DataType, value: exp.DataType, kind: str | None = None) -> exp.DataType:
    return exp.DataType(this=exp.DType.MAP, expressions=[key, value], nested=True, kind=kind)


def _element(kinds: Sequence[exp.DataType]) -> exp.DataType | None:
    (array,) = kinds
    return array.expressions[0] if array.this == exp.DType.ARRAY and array.expressions else None


def _of_map(kind: exp.DataType) -> list[exp.DataType]:
    """The types of keys and values; nothing where it is no map."""
    parts = kind.expressions if kind.this == exp.DType.MAP else []
    return parts if len(parts) == 2 else []


def _keys(kinds: Sequence[exp.DataType]) -> exp.DataType | None:
    parts = _of_map(kinds[0])
    return _array(parts[0]) if parts else None


def _values(kinds: Sequence[exp.DataType]) -> exp.DataType | None:
    parts = _of_map(kinds[0])
    return _array(parts[1]) if parts else None


def _entries(kinds: Sequence[exp.DataType]) -> exp.DataType | None:
    fields = [
        exp.ColumnDef(this=exp.to_identifier(name, quoted=True), kind=kind)
        for name, kind in zip(("key", "value"), _of_map(kinds[0]), strict=False)
    ]
    if not fields:
        return None
    return _array(exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True))


def _of_arrays(kinds: Sequence[exp.DataType]) -> exp.DataType | None:
    inner = [_element([kind]) for kind in kinds]
    key, value = inner if len(inner) == 2 else (None, None)
    return _map(key, value) if key is not None and value is not None else None


RULES: Mapping[str, Callable[[Sequence[exp.DataType]], exp.DataType | None]] = {
    "ELEMENT": _element,
    "ARRAY_MAX": _element,
    "ARRAY_MIN": _element,
    "MAP_KEYS": _keys,
    "MAP_VALUES": _values,
    "MAP_ENTRIES": _entries,
    "MAP_FROM_ARRAYS": _of_arrays,
    "ARRAY_AGG": lambda kinds: _array(kinds[0]),
    "COLLECT": lambda kinds: _map(kinds[0], exp.DataType(this=exp.DType.INT), "MULTISET"),
}
