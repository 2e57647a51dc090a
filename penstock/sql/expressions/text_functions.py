"""Functions of texts as reading tasks compute them: `connector/functions/texts.py` has those that are named here.

A separator, a position and a length are taken where they are written out, in the bounds in which Spark's form of the
call (`dialect/spark/texts.py`) has no other branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from penstock.catalog.model import types as t
from penstock.connector.expression import Expression, FunctionCall
from penstock.sql.expressions.arguments import (
    Compile,
    FunctionForm,
    constant_number,
    constant_text,
    number_constant,
    text_call,
    text_constant,
    text_of,
)
from penstock.sql.expressions.java_patterns import read_pattern
from penstock.sql.expressions.value_types import BOOLEAN, OutsideError

_MOST_PADDING = 1_000
"""Characters that a text is filled up to: more would not fit into the batch of a task."""

_MOST_REPEATED = 100


def _cut(text: Expression, start: int, length: exp.Expr | None) -> Expression:
    bounds = [start] + ([] if length is None else [constant_number(length)])
    if min(bounds[1:], default=0) < 0:
        raise OutsideError
    return text_call("substring", text, *map(number_constant, bounds))


def _substring(tree: exp.Expr, compiled: Compile) -> Expression:
    start = constant_number(tree.args.get("start"))
    return _cut(text_of(tree.this, compiled), start, tree.args.get("length"))


def _substr(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    text, start, *length = arguments
    return _cut(text_of(text, compiled), constant_number(start), length[0] if length else None)


def _left(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    text, length = arguments
    return _cut(text_of(text, compiled), 1, length)


def _right(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    text, length = arguments
    count = number_constant(constant_number(length))
    return text_call("right", text_of(text, compiled), count)


_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def _trim(tree: exp.Expr, compiled: Compile) -> Expression:
    function = _TRIMS.get(tree.args.get("position") or "BOTH")
    if function is None or tree.args.get("collation") is not None:
        raise OutsideError
    letters = tree.args.get("expression")
    return _trimmed(function)([tree.this, *([] if letters is None else [letters])], compiled)


def _trimmed(function: str) -> FunctionForm:
    def form(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
        text, *letters = arguments
        constants = (text_constant(constant_text(each)) for each in letters)
        return text_call(function, text_of(text, compiled), *constants)

    return form


def _joined(function: str) -> FunctionForm:
    def form(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
        return text_call(function, *(text_of(part, compiled) for part in arguments))

    return form


def _of_one(function: str) -> FunctionForm:
    def form(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
        (text,) = arguments
        return text_call(function, text_of(text, compiled))

    return form


def _cased(function: str) -> FunctionForm:
    def form(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
        found = _of_one(function)(arguments, compiled)
        assert isinstance(found, FunctionCall), "it is one"
        (text,) = found.arguments
        if isinstance(text, FunctionCall) and text.function in ("upper", "lower"):
            raise OutsideError  # of UPPER(LOWER(x)) Spark computes UPPER(x), which is not the same
        return found

    return form


def _length(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    (text,) = arguments
    return FunctionCall(
        function="char_length", arguments=(text_of(text, compiled),), type=t.IntType()
    )


def _position(text: exp.Expr, searched: exp.Expr | None, compiled: Compile) -> Expression:
    arguments = (text_of(text, compiled), text_constant(constant_text(searched)))
    return FunctionCall(function="position", arguments=arguments, type=t.IntType())


def _begins(function: str) -> FunctionForm:
    def form(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
        text, part = arguments
        constant = text_constant(constant_text(part, empty=True))
        return FunctionCall(
            function=function, arguments=(text_of(text, compiled), constant), type=BOOLEAN
        )

    return form


def _replace(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    text, searched, put = arguments
    parts = (constant_text(searched), constant_text(put, empty=True))
    return text_call("replace", text_of(text, compiled), *map(text_constant, parts))


def _split_index(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    text, separator, number = arguments
    index, mark = constant_number(number), constant_text(separator)
    if not 0 <= index < 2**31 - 1:
        raise OutsideError
    return text_call(
        "split_index", text_of(text, compiled), text_constant(mark), number_constant(index)
    )


def _padded(function: str) -> FunctionForm:
    def form(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
        text, length, padding = arguments
        width, letter = constant_number(length), constant_text(padding)
        if not 0 <= width <= _MOST_PADDING or len(letter) != 1:
            raise OutsideError
        constants = (number_constant(width), text_constant(letter))
        return text_call(function, text_of(text, compiled), *constants)

    return form


def _repeated(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    text, count = arguments
    times = constant_number(count)
    if times > _MOST_REPEATED:
        raise OutsideError
    return text_call("repeat", text_of(text, compiled), number_constant(max(times, 0)))


# --- LIKE ---


def like(tree: exp.Expr, escape: str, compiled: Compile) -> Expression:
    """Return whether a text is LIKE a pattern that is written out, in which `escape` may take a meaning away."""
    pattern = _escaped(constant_text(tree.expression, empty=True), escape)
    found = FunctionCall(
        function="like",
        arguments=(text_of(tree.this, compiled), text_constant(pattern)),
        type=BOOLEAN,
    )
    if not tree.args.get("negate"):
        return found
    return FunctionCall(function="not", arguments=(found,), type=BOOLEAN)


def _escaped(pattern: str, escape: str) -> str:
    """Write a pattern with the escape of Arrow, a backslash."""
    written, letters = "", iter(pattern)
    for letter in letters:
        if letter == escape:
            letter = next(letters, "")  # noqa: PLW2901  what is behind an escape stands for itself
            if letter not in ("%", "_", escape):
                raise OutsideError  # Spark refuses such a pattern
            plain = True
        else:
            plain = letter == "\\"
        written += f"\\{letter}" if plain and letter in "%_\\" else letter
    return written


def _escape(tree: exp.Expr, compiled: Compile) -> Expression:
    escape = constant_text(tree.expression)
    if not isinstance(tree.this, exp.Like) or len(escape) != 1:
        raise OutsideError
    return like(tree.this, escape, compiled)


def _like(tree: exp.Expr, compiled: Compile) -> Expression:
    if "\\" in tree.expression.name:
        raise OutsideError
    return like(tree, "", compiled)


# --- regular expressions ---


def _regexp(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    text, pattern = arguments
    read = read_pattern(constant_text(pattern))
    constants = map(text_constant, (read.re2, read.python))
    return FunctionCall(
        function="matches", arguments=(text_of(text, compiled), *constants), type=BOOLEAN
    )


def _regexp_extract(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    text, pattern, *group = arguments
    number = constant_number(group[0]) if group else 0
    if number < 0:
        raise OutsideError
    read = read_pattern(constant_text(pattern), number)
    constants = map(text_constant, (read.re2, read.python))
    return text_call("regexp_extract", text_of(text, compiled), *constants)


def _regexp_replace(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    text, pattern, put = arguments
    read = read_pattern(constant_text(pattern))
    if read.empty:
        raise OutsideError  # an empty match behind another one is one in Java alone
    constants = map(text_constant, (read.re2, read.python, constant_text(put, empty=True)))
    return text_call("regexp_replace", text_of(text, compiled), *constants)


TEXT_NODES: Mapping[type[exp.Expr], Callable[[exp.Expr, Compile], Expression]] = {
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.DPipe: lambda e, compiled: _joined("concat")([e.this, e.expression], compiled),
    exp.StrPosition: lambda e, compiled: _position(e.this, e.args.get("substr"), compiled),
    exp.Like: _like,
    exp.Escape: _escape,
}

TEXT_FUNCTIONS: Mapping[str, tuple[int, int | None, FunctionForm]] = {
    "UPPER": (1, 1, _cased("upper")),
    "LOWER": (1, 1, _cased("lower")),
    "REPEAT": (2, 2, _repeated),
    "REVERSE": (1, 1, _of_one("reverse")),
    "CHAR_LENGTH": (1, 1, _length),
    "CHARACTER_LENGTH": (1, 1, _length),
    "CONCAT": (1, None, _joined("concat")),
    "CONCAT_WS": (2, None, _joined("concat_ws")),
    "SUBSTR": (2, 3, _substr),
    "LEFT": (2, 2, _left),
    "RIGHT": (2, 2, _right),
    "BTRIM": (1, 2, _trimmed("trim")),
    "LTRIM": (1, 2, _trimmed("ltrim")),
    "RTRIM": (1, 2, _trimmed("rtrim")),
    "LOCATE": (2, 2, lambda a, compiled: _position(a[1], a[0], compiled)),
    "INSTR": (2, 2, lambda a, compiled: _position(a[0], a[1], compiled)),
    "STARTSWITH": (2, 2, _begins("starts_with")),
    "ENDSWITH": (2, 2, _begins("ends_with")),
    "REPLACE": (3, 3, _replace),
    "SPLIT_INDEX": (3, 3, _split_index),
    "REGEXP": (2, 2, _regexp),
    "REGEXP_EXTRACT": (2, 3, _regexp_extract),
    "REGEXP_REPLACE": (3, 3, _regexp_replace),
    "LPAD": (3, 3, _padded("lpad")),
    "RPAD": (3, 3, _padded("rpad")),
}
"""Functions by name, with the least and the largest number of their arguments."""
