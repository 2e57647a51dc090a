"""Regular expressions find the same in Arrow as in Java, for all that the set has."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

from penstock.catalog.model.type_parser import parse_type
from penstock.connector.expression import Expression, FieldValue
from penstock.connector.fragments import evaluate
from penstock.connector.functions.patterns import literal
from penstock.sql.expressions.expression import parse_expression, to_spark
from penstock.sql.expressions.fragments import compile_expression
from penstock.sql.expressions.java_patterns import read_pattern
from penstock.sql.expressions.value_types import OutsideError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDS = ("", "", "", "\n", "\r\n", "\r", "\n\n", "\r\r\n", "\u0085", "\u2028")
LETTERS = "aAbB01_-. \t\n\r\x0b&/=?ßäK\u212a\u0085\u2028\U0001f986$^[]"
PATTERNS = (
    "a", "aa", "^a", "a$", "^a$", "^$", "$", "(&|^)channel_id=([^&]*)", r"(\d+)-(\d+)", r"^\d{4}-\d{2}$", "[^/]+$", r"\s$",
    r"^\s$", "(?i)ab+", "(?i)[^a]", "(?i)k", "(?s)a.b", "a.b", "(a|ab)(c|bcd)?", "a*?b", "(a+?)(a*)", "[a-cA-C_-]+", r"\.",
    r"[\d.]+", r"\S+", r"\W", r"\D$", "(?:a|b){2,3}", "(a)|(b)", "x|$", r"\$", r"a\r$", r"[^x]$", r".\n", "a{2,}", "ä|ß", ".",
    r"[\u0041-\u0043]", r"\x41", ".+$", "(a|$)", r"(\w+)@(\w+)\.com", "(.*)-(.*)", "(.*?)-(.*)", "a?b?$",
)  # fmt: skip
REFUSED = (
    r"\bword\b", r"\p{L}", r"(a)\1", "(?=a)", "(?<!a)b", "a*+", "(?>a)", "[a[b]]", "[a&&b]", "(a*)*", "((a)b)+", "a**",
    "a{,3}", "(", ")", "[", "a{1001}", "(?:a{100}){100}", "[]a]", "[-a]", r"\Qa\E", r"\Z", r"\R", "(?x)a", "{", "a{0}",
    "[z-a]", r"[a-\d]", "\\", "(?<name>a)", "a{3,2}", r"\ud800",
)  # fmt: skip


def random_pattern(dice: random.Random, depth: int = 0) -> str:
    """A pattern of the grammar, or nearly one."""
    atoms = [
        "a",
        "b",
        "A",
        "0",
        ".",
        r"\d",
        r"\s",
        r"\w",
        r"\S",
        "[ab]",
        "[^a]",
        "[a-z0-9]",
        r"\.",
        "-",
        "ß",
        r"[^\s&]",
    ]
    parts = []
    for _ in range(dice.randint(1, 4)):
        atom = dice.choice(atoms)
        if depth < 2 and dice.random() < 0.25:
            atom = dice.choice(("(", "(?:")) + random_pattern(dice, depth + 1) + ")"
        parts.append(atom + dice.choice(("", "", "", "*", "+", "?", "*?", "+?", "{1,2}")))
    if dice.random() < 0.1:
        parts.insert(0, "^")
    if dice.random() < 0.2:
        parts.append("$")
    text = "".join(parts)
    return f"{text}|{random_pattern(dice, depth + 1)}" if dice.random() < 0.2 else text


def compiled(text: str) -> Expression | None:
    """An expression over the column s."""

    def column(node: exp.Column) -> Expression:
        return FieldValue(path=(node.name,), type=parse_type("STRING"))

    return compile_expression(parse_expression(text), column)


def calls(pattern: str) -> list[str]:
    """Calls of the functions with a pattern, of those groups that it has."""
    quoted = pattern.replace("'", "''")
    groups = pattern.replace("(?", "").replace(r"\(", "").count("(")
    return [
        f"REGEXP(s, '{quoted}')",
        *(f"REGEXP_EXTRACT(s, '{quoted}', {group})" for group in range(groups + 1)),
        rf"REGEXP_REPLACE(s, '{quoted}', '<\1$1>')",
    ]


def test_arrow_finds_what_java_finds(spark: SparkSession, tmp_path: Path) -> None:
    """Patterns of the grammar, on texts with the characters in which the libraries differ."""
    dice = random.Random(17)
    written = [*PATTERNS, *(random_pattern(dice) for _ in range(100))]
    every = [call for pattern in written for call in calls(pattern)]
    texts = [call for call in every if compiled(call) is not None]
    known = [
        "aab-b0",
        "2026-11",
        "a@b.com",
        "channel_id=5&x=1",
        "x&channel_id=",
        "",
        *LETTERS,
        None,
    ]
    rows = known + [
        "".join(dice.choices(LETTERS, k=dice.randint(0, 6))) + dice.choice(ENDS) for _ in range(400)
    ]
    batch = pa.RecordBatch.from_pydict({"s": pa.array(rows, pa.string())})
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet")).coalesce(1)

    assert len(texts) > 300
    assert all(compiled(call) is not None for pattern in PATTERNS for call in calls(pattern)[:1])
    for start in range(0, len(texts), 100):
        part = texts[start : start + 100]
        found = frame.selectExpr(
            *(f"{to_spark(text)} AS c{i}" for i, text in enumerate(part))
        ).toArrow()
        for index, text in enumerate(part):
            value = compiled(text)
            assert value is not None
            pairs = zip(
                rows,
                evaluate(value, batch).to_pylist(),
                found.column(index).to_pylist(),
                strict=True,
            )
            assert [pair for pair in pairs if pair[1] != pair[2]] == [], text


@pytest.mark.parametrize("pattern", REFUSED)
def test_other_patterns_are_left_to_java(pattern: str) -> None:
    """What one of the libraries has otherwise, and what is no pattern."""
    with pytest.raises(OutsideError):
        read_pattern(pattern)


def test_a_pattern_that_may_be_empty_is_not_replaced_here() -> None:
    """Java takes an empty match behind another one, RE2 does not."""
    assert compiled("REGEXP_REPLACE(s, 'a*', 'x')") is None
    assert compiled("REGEXP_REPLACE(s, '^', 'x')") is None
    assert compiled("REGEXP_REPLACE(s, 'a|', 'x')") is None


@pytest.mark.parametrize("text", ["a", "aa", ".", "a-b$", "ß\U0001f986", "\n", "[]"])
def test_a_pattern_of_characters_is_searched_for_as_their_text(text: str) -> None:
    """With the same result as the pattern has, whose matches do not overlap either."""
    read = read_pattern("".join(f"\\u{ord(c):04x}" if c.isascii() else c for c in text))
    texts = pa.array(["", text, f"aa{text}{text}a{text[:1]}", "aaa", "A", None])

    assert literal(read.re2) == text
    assert pc.replace_substring(texts, text, "<$1>") == pc.replace_substring_regex(
        texts, read.re2, "<$1>"
    )


@pytest.mark.parametrize("pattern", [".", "[ab]", "a|b", "(?i)a", "a+", "^a", "a$", "(a)", r"\d"])
def test_other_patterns_are_no_text(pattern: str) -> None:
    """They match one text or another, or a place."""
    assert literal(read_pattern(pattern).re2) is None


def test_a_group_that_is_not_there_is_left_to_spark() -> None:
    """It fails there."""
    assert compiled("REGEXP_EXTRACT(s, '(a)', 2)") is None
    assert compiled("REGEXP_EXTRACT(s, '(a)', -1)") is None
    assert compiled("REGEXP_EXTRACT(s, '(?:a)', 1)") is None
