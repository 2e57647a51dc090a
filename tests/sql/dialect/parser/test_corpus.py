"""Thousands of generated statements read back as they are, and broken ones end in an error at a place in the text."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.catalog.errors import InputError, InputErrors
from penstock.sql.convert.statement import parse_tree
from penstock.sql.dialect import Flink
from penstock.sql.script.splitter import split_all
from penstock.sql.syntax.positions import Source
from tests.sql.dialect.grammar import statements

EACH = 10
"""Statements of one Hypothesis example: drawing them together is cheaper."""
MANY = settings(
    max_examples=500, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
NOISE = (
    "'",
    "`",
    "(",
    ")",
    ",",
    ";",
    "/*",
    "*/",
    "--",
    "\\",
    "\x00",
    "é",
    "😀",
    "\n",
    "=>",
    "<>",
    "[",
    "}",
    "$",
    "1e",
)


@pytest.mark.slow
@MANY
@given(st.lists(statements(), min_size=EACH, max_size=EACH))
def test_a_generated_statement_reads_back_as_the_same_tree(texts: list[str]) -> None:
    """Five thousand by the grammar: parse, write, parse."""
    for text in texts:
        tree = sqlglot.parse_one(text, read=Flink)
        written = tree.sql(Flink)

        assert sqlglot.parse_one(written, read=Flink) == tree, written


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A statement with a word dropped, doubled, swapped, or cut off, or with noise in it."""
    words = draw(statements()).split(" ")
    at = draw(st.integers(0, len(words) - 1))
    other = draw(st.integers(0, len(words) - 1))
    match draw(st.integers(0, 4)):
        case 0:
            del words[at]
        case 1:
            words.insert(at, words[at])
        case 2:
            words[at], words[other] = words[other], words[at]
        case 3:
            place = draw(st.integers(0, len(words[at])))
            words[at] = words[at][:place] + draw(st.sampled_from(NOISE)) + words[at][place:]
        case _:
            text = " ".join(words)
            return text[: draw(st.integers(0, len(text)))]
    return " ".join(words)


@pytest.mark.slow
@MANY
@given(st.lists(broken(), min_size=EACH, max_size=EACH))
def test_a_broken_statement_ends_in_an_error_at_a_place_in_it(texts: list[str]) -> None:
    """Five thousand mutants: each is a statement still, or an error of ours that points into the text."""
    for text in texts:
        for error in errors_of(text):
            span = error.span
            assert span is not None, error.message
            lines = text.split("\n")
            assert 1 <= span.line <= len(lines)
            assert 1 <= span.column <= len(lines[span.line - 1]) + 1


def errors_of(text: str) -> list[InputError]:
    """What is wrong with a text; any other exception goes through."""
    source = Source(file="mutant.sql", text=text)
    statements_, broken_end = split_all(source)
    found = [broken_end] if broken_end is not None else []
    for one in statements_:
        try:
            tree = parse_tree(one)
        except InputErrors as errors:
            found += errors.errors
        except InputError as error:
            found.append(error)
        else:
            assert sqlglot.parse_one(tree.sql(Flink), read=Flink) == tree
    return found
