"""Write a statement's pieces on lines: those the author chose, and more where a line would be too long.

Keywords are in capital letters, where that leaves the statement's meaning as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot.errors import SqlglotError

from penstock.sql.dialect.flink.dialect import Flink
from penstock.sql.formatter.tokens import (
    LISTS,
    Group,
    Node,
    Token,
    TokenKind,
    blank_between,
    clauses_of,
    head_length,
    is_query,
    items_of,
    tokens_of,
)

_KEYWORDS = {
    "ALL", "ALTER", "AND", "ARRAY", "AS", "ASC", "BEGIN", "BETWEEN", "BIGINT", "BOOLEAN", "BY",
    "BYTES", "CASE", "CAST", "CREATE", "CROSS", "DATE", "DECIMAL", "DESC", "DESCRIPTOR", "DISTINCT",
    "DOUBLE", "DROP", "ELSE", "END", "ENFORCED", "EXCEPT", "EXECUTE", "EXISTS", "EXPLAIN", "FALSE",
    "FETCH", "FLOAT", "FOR", "FROM", "FULL", "GROUP", "HAVING", "IF", "IN", "INNER", "INSERT",
    "INT", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN", "KEY", "LATERAL", "LEFT", "LIKE", "LIMIT",
    "MAP", "METADATA", "NATURAL", "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER", "OUTER", "OVER",
    "OVERWRITE", "PARTITION", "PARTITIONED", "PRIMARY", "RESET", "RIGHT", "ROW", "SELECT", "SET",
    "SHOW", "SMALLINT", "STATEMENT", "STRING", "TABLE", "TABLES", "TEMPORARY", "THEN", "TIME",
    "TIMESTAMP", "TIMESTAMP_LTZ", "TINYINT", "TRUE", "UNION", "USE", "VALUES", "VARCHAR", "VIEW",
    "VIEWS", "VIRTUAL", "WATERMARK", "WHEN", "WHERE", "WITH",
}  # fmt: skip


_OBJECTS = {"SECRET", "SECRETS"}
"""Words that are common as names: keywords right behind one of _VERBS."""
_VERBS = {"ALTER", "CREATE", "DROP", "SHOW"}

_FRAME = {"BEGIN", "END", "EXECUTE", "EXPLAIN", "SET", "STATEMENT"}
"""Words around the statements of a set, which are laid out by themselves."""


def in_capitals(run: Sequence[Token], text: str) -> Sequence[Token]:
    """Return a statement's pieces with its keywords in capitals."""
    changed = [
        replace(piece, text=piece.word) if _is_keyword(piece.word, left) else piece
        for left, piece in zip(["", *(piece.text for piece in run)], run, strict=False)
    ]
    if all(a.text == b.text for a, b in zip(run, changed, strict=True)):
        return run
    if all(piece.word in _FRAME or piece.text == ";" for piece in run):
        return changed
    start, end = run[0].start, run[-1].start + len(run[-1].text)
    before = text[start:end]
    after = before
    for piece in reversed(changed):
        if piece.kind is TokenKind.WORD:
            at = piece.start - start
            after = after[:at] + piece.text + after[at + len(piece.text) :]
    return changed if _same_meaning(before, after) else run


def _is_keyword(word: str, left: str) -> bool:
    if word in _OBJECTS:
        return left.upper() in _VERBS
    return word in _KEYWORDS and left != "."


def _same_meaning(before: str, after: str) -> bool:
    try:
        return repr(_trees(before)) == repr(_trees(after))
    except (SqlglotError, RecursionError):
        return False


def _trees(text: str) -> list[object]:
    return [tree for tree in Flink().parse(text.rstrip().removesuffix(";")) if tree is not None]


WIDTH = 100
"""Longest line that is made; a piece or a list of one item may be longer."""

INDENT = 2
_CONSTRAINTS = {"WATERMARK", "PRIMARY", "CONSTRAINT", "UNIQUE", "PERIOD"}


def flat(nodes: Sequence[Node]) -> str:
    """Write nodes on one line."""
    text, left = "", None
    for piece in tokens_of(nodes):
        text += (" " if left is not None and blank_between(left, piece) else "") + piece.text
        left = piece
    return text


def _breaks(nodes: Sequence[Node]) -> bool:
    """Return whether nodes, the first one's start apart, take several lines."""
    pieces = list(tokens_of(nodes))
    return any(p.newlines for p in pieces[1:]) or any(p.kind is TokenKind.LINE for p in pieces)


class Writer:
    """Collects lines. Methods write at the end; `indent` is that of the line where the written thing begins."""

    def __init__(self) -> None:
        self._lines: list[str] = [""]
        self._left: Token | None = None

    @property
    def text(self) -> str:
        """What was written, without a newline at the end."""
        return "\n".join(line.rstrip() for line in self._lines)

    def statement(self, nodes: Sequence[Node], indent: int) -> None:
        """Write a statement or a query, clause by clause."""
        if not _breaks(nodes) and indent + len(flat(nodes)) <= WIDTH:
            self._flat(nodes)
            return
        clauses = clauses_of(nodes)
        for number, clause in enumerate(clauses):
            if number:
                self._new_line(indent)
            remarks = 0
            while number and remarks < len(clause) - 1 and _is_remark(clause[remarks]):
                self._flat(clause[remarks : remarks + 1])
                self._new_line(indent)
                remarks += 1
            self._clause(clause[remarks:], indent)

    def _clause(self, nodes: Sequence[Node], indent: int) -> None:
        first, head = nodes[0], head_length(nodes)
        word = first.word if isinstance(first, Token) else ""
        self._flat(nodes[:head])
        body = nodes[head:]
        items = items_of(body)
        asked = head and body and _first(body).newlines > 0
        wide = _breaks(body) or self._column + 1 + len(flat(body)) > WIDTH
        if word in LISTS and (asked or (wide and len(items) > 1)):
            for item in items:
                self._new_line(indent + INDENT)
                self._item(item, indent + INDENT)
            return
        if word == "WITH" and wide and len(items) > 1:
            self._item(items[0], indent)
            for item in items[1:]:
                self._new_line(indent)
                self._item(item, indent)
            return
        if asked:
            self._new_line(indent + INDENT)
        forced = wide and not _breaks(body) and word in {"WHERE", "HAVING", *_JOINED}
        self._item(body, indent, deeper=indent + INDENT, splits=forced)

    def _item(
        self, nodes: Sequence[Node], indent: int, *, deeper: int | None = None, splits: bool = False
    ) -> None:
        """Write nodes in a row with the author's line breaks; `splits` puts each AND and OR on a line."""
        deeper = indent + INDENT if deeper is None else deeper
        between, leading = False, True
        for number, node in enumerate(nodes):
            piece = _first([node])
            own_line = number > 0 and piece.newlines > 0
            deep = indent if leading or piece.word in _CONTINUED else deeper
            if piece.word in {"AND", "OR"}:
                own_line = own_line or (splits and not between)
                between = False
            between = between or piece.word == "BETWEEN"
            if own_line or self._after_remark:
                self._new_line(deep)
            leading = leading and piece.is_remark
            if isinstance(node, Group):
                self._group(node, self._indent)
            else:
                self._piece(node)

    def _group(self, group: Group, indent: int) -> None:
        nodes = group.nodes
        inside = [*nodes, group.closing]
        fits = self._column + len(flat([group])) <= WIDTH
        broken = _breaks([group.opening, *inside])
        self._piece(group.opening)
        if not broken and fits:
            self._flat(inside)
            return
        if is_query(nodes):
            self._new_line(indent + INDENT)
            self.statement(nodes, indent + INDENT)
            self._new_line(indent)
        else:
            self._list(nodes, indent, closing=group.closing)
        self._piece(group.closing)

    def _list(self, nodes: Sequence[Node], indent: int, *, closing: Token) -> None:
        items = items_of(nodes)
        spread = len(items) > 1 or (nodes and _first(nodes).newlines) or closing.newlines
        if not spread:
            self._item(nodes, indent)
            if self._after_remark:
                self._new_line(indent)
            return
        width = _name_width(items)
        for item in items:
            self._new_line(indent + INDENT)
            if width and (name := _column_name(item)):
                self._piece(name)
                self._pad(width - len(name.text))
                self._item(item[1:], indent + INDENT)
            else:
                self._item(item, indent + INDENT)
        self._new_line(indent)

    def _flat(self, nodes: Sequence[Node]) -> None:
        for piece in tokens_of(nodes):
            self._piece(piece)

    def _piece(self, piece: Token) -> None:
        if self._left is not None and blank_between(self._left, piece):
            self._lines[-1] += " "
        # a string or a comment may have lines of its own, which are kept as they are
        first, *rest = piece.text.split("\n")
        self._lines[-1] += first
        self._lines += rest
        self._left = piece

    def _pad(self, blanks: int) -> None:
        self._lines[-1] += " " * blanks

    def _new_line(self, indent: int) -> None:
        if self._lines[-1].strip():
            self._lines.append("")
        self._lines[-1] = " " * indent
        self._left = None

    @property
    def _after_remark(self) -> bool:
        return self._left is not None and self._left.kind is TokenKind.LINE

    @property
    def _column(self) -> int:
        return len(self._lines[-1])

    @property
    def _indent(self) -> int:
        line = self._lines[-1]
        return len(line) - len(line.lstrip())


_CONTINUED = {"WITH", "PARTITIONED", "COMMENT", "DISTRIBUTED", "LIKE"}
"""Words that continue a CREATE TABLE on a line of their own."""

_JOINED = ("JOIN", "LEFT", "RIGHT", "INNER", "FULL", "CROSS", "NATURAL")


def _is_remark(node: Node) -> bool:
    return isinstance(node, Token) and node.is_remark


def _first(nodes: Sequence[Node]) -> Token:
    return next(tokens_of(nodes))


def _column_name(item: Sequence[Node]) -> Token | None:
    """Return the name of a column's definition: a name, and then its type as a word."""
    if len(item) < 2 or not all(isinstance(node, Token) for node in item[:2]):
        return None
    name, type_ = item[0], item[1]
    assert isinstance(name, Token), "looked at above"
    assert isinstance(type_, Token), "looked at above"
    is_name = name.kind is TokenKind.NAME or (
        name.kind is TokenKind.WORD and name.word not in _CONSTRAINTS
    )
    is_column = is_name and type_.kind is TokenKind.WORD and not type_.newlines and not type_.glued
    return name if is_column else None


def _name_width(items: Sequence[Sequence[Node]]) -> int:
    """Return the width of names where a list is one of columns; 0 where it is another list."""
    names = [_column_name(item) for item in items]
    known = {"AS", "METADATA", "COMMENT"}
    types = [item[1] for item, name in zip(items, names, strict=True) if name is not None]
    words = [type_.word for type_ in types if isinstance(type_, Token)]
    if not words or not all(word in _TYPES or word in known for word in words):
        return 0
    return max(len(name.text) for name in names if name is not None)


_TYPES = {
    "ARRAY", "BIGINT", "BINARY", "BOOLEAN", "BYTES", "CHAR", "CHARACTER", "DATE", "DEC", "DECIMAL",
    "DOUBLE", "FLOAT", "INT", "INTEGER", "INTERVAL", "MAP", "MULTISET", "NUMERIC", "RAW", "ROW",
    "SMALLINT", "STRING", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TINYINT", "VARBINARY", "VARCHAR",
    "VARIANT",
}  # fmt: skip
