"""Lays out a file: statement by statement, with the comments and template tags between them.

A statement with template tags inside, or with parentheses that do not match, stays as it is: what it comes to is not
known. So does SET with a key or a value that is not quoted. The pieces of the result are compared with those of the
text before it is given out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.sql.formatter.tokens import Token, TokenKind, grouped, tokenize
from penstock.sql.formatter.writer import Writer, in_capitals

_INDENT = 2


def format_sql(text: str, file: str = "<text>") -> str:
    """Lay out the text of a file. Raises SqlSyntaxError for a string or comment without an end."""
    text = text.replace("\r\n", "\n")
    pieces = tokenize(text, file)
    lines: list[str] = []
    depth = 0
    for run in _runs(pieces):
        depth -= run[0].word == "END" and depth > 0
        written = _written(run, text, depth * _INDENT)
        behind = lines and run[0].is_remark and not run[0].newlines
        if behind:
            lines[-1] += f" {written.lstrip()}"
        else:
            if lines and run[0].newlines > 1:
                lines.append("")
            lines.append(written)
        depth += _opens(run)
    result = "".join(f"{line}\n" for line in lines)
    assert _same(pieces, tokenize(result, file)), "a layout changes blanks and the case of keywords"
    return result


def _runs(pieces: Sequence[Token]) -> Iterator[list[Token]]:
    """Cut pieces into statements with their semicolon, and remarks between them, each for itself."""
    run: list[Token] = []
    for piece in pieces:
        if piece.is_remark and not run:
            yield [piece]
            continue
        run.append(piece)
        if (piece.kind is TokenKind.SIGN and piece.text == ";") or _opens(run):
            yield run
            run = []
    # remarks behind the last statement, where that has no semicolon
    last = len(run)
    while last and run[last - 1].is_remark:
        last -= 1
    if run[:last]:
        yield run[:last]
    for piece in run[last:]:
        yield [piece]


def _opens(run: Sequence[Token]) -> bool:
    """Return whether a run is the opening of a statement set, whose statements follow indented."""
    # asked of every token: only a few are looked at
    return _words(run[-3:]) == ["STATEMENT", "SET", "BEGIN"] or (
        run[-1].text == ";" and _words(run[:4]) == ["BEGIN", "STATEMENT", "SET", ""]
    )


def _words(run: Sequence[Token]) -> list[str]:
    return [piece.word for piece in run]


def _written(run: Sequence[Token], text: str, indent: int) -> str:
    margin = " " * indent
    nodes = grouped(run)
    tagged = len(run) > 1 and any(piece.kind is TokenKind.TAG for piece in run)
    if nodes is None or tagged or _is_bare_setting(run):
        end = run[-1].start + len(run[-1].text)
        return margin + text[run[0].start : end]
    writer = Writer()
    capitals = grouped(in_capitals(run, text))
    assert capitals is not None, "the same parentheses"
    writer.statement(capitals, indent)
    return margin + writer.text.lstrip()


def _is_bare_setting(run: Sequence[Token]) -> bool:
    """Return whether a run is SET or RESET with a key or value without quotes, in which blanks would mean something."""
    quoted = {piece.kind is TokenKind.STRING for piece in run[1:] if piece.text not in {"=", ";"}}
    return run[0].word in {"SET", "RESET"} and False in quoted


def _same(before: Sequence[Token], after: Sequence[Token]) -> bool:
    """Return whether two texts have the same pieces, but for the case of words, and are glued alike to templates."""
    if len(before) != len(after):
        return False
    return all(
        a.kind is b.kind
        and (a.text == b.text or (a.word and a.word == b.word))
        and (a.glued == b.glued or not _may_join(left, a))
        for left, a, b in zip([before[0], *before] if before else [], before, after, strict=False)
    )


def _may_join(left: Token, right: Token) -> bool:
    """Return whether what a template puts in could become one word with its neighbour."""
    alone = {",", ";", "(", ")"}
    is_value = TokenKind.VALUE in {left.kind, right.kind}
    return is_value and left.text not in alone and right.text not in alone
