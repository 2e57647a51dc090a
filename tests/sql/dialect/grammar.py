"""Flink's grammar as data, and a Hypothesis strategy that writes statements by it.

A production is a text with <names> of others in it; `~...~` around a part means that it may be left out. The types,
intervals, words and functions come from the tables of the dialect itself, so that what is added there is tried here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from hypothesis import strategies as st

from penstock.sql.compatibility import Kind, Status
from penstock.sql.compatibility.page import ROWS
from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.dialect.parser.calls import SYNTAX
from penstock.sql.dialect.parser.table_functions import WINDOW_FUNCTIONS
from penstock.sql.dialect.parser.types import DECIMALS, PLAIN, SIZED, TIMES
from penstock.sql.syntax.intervals import UNITS

__all__ = ["GRAMMAR", "statements"]

DEPTH = 5
"""Below this many expansions every choice takes its first, which ends."""

NO_CALLS = {*WINDOW_FUNCTIONS, *SYNTAX, "MAP", "IF"}
CALLS = sorted(name for name in FUNCTIONS if name not in NO_CALLS and not name.startswith("JSON_"))

QUERIES: Mapping[str, Sequence[str]] = {
    "statement": ("<query>", "<query>", "<example>", "INSERT INTO <table>~ (<columns>)~ <query>",
                  "CREATE~ TEMPORARY~ VIEW~ IF NOT EXISTS~ <table> AS <query>",
                  "CREATE TABLE <table> (<elements>) WITH (<options>)", "SET 'k' = <string>"),
    "query": ("<block>", "<block>", "WITH <cte>~, <cte>~ <block>", "<core> <setop> <core>~ <tail>~",
              "(<block>) <setop> (<query>)", "VALUES (<e>), (<e>)"),
    "setop": ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"),
    "cte": ("<name> AS (<query>)", "<name> (<columns>) AS (<query>)"),
    "block": ("SELECT <e>", "<core>~ <tail>~"),
    "core": ("SELECT <item>", "SELECT~ <hint>~ ~DISTINCT ~<items> FROM <from>~ WHERE <p>~~ <group>~~ HAVING <p>~"
             "~ WINDOW w AS (<over>)~", "SELECT *, <item> FROM <from>~ QUALIFY <p>~"),
    "tail": ("LIMIT 3", "ORDER BY <order>~, <order>~~ LIMIT 10~~ OFFSET 5 ROWS~", "FETCH FIRST 2 ROWS ONLY"),
    "order": ("<e>~ <direction>~",),
    "direction": ("ASC", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST"),
    "items": ("<item>", "<item>, <item>", "t.*, <item>"),
    "item": ("<e>", "<e> AS <name>", "<e> <plain>"),
    "group": ("GROUP BY <e>", "GROUP BY <e>, <e>", "GROUP BY GROUPING SETS ((<e>), (<e>, <e>), ())",
              "GROUP BY ROLLUP (<e>, <e>)", "GROUP BY CUBE (<e>)", "GROUP BY <window>, <e>"),
    "window": ("TUMBLE(ts, <interval>)", "HOP(ts, <interval>, <interval>)", "SESSION(ts, <interval>)"),
    "from": ("<relation>", "<relation>", "<relation>, <relation>", "<relation> <join>", "<relation> <join> <join>"),
    "join": ("JOIN <relation> ON <p>", "<side> JOIN <relation> ON <p>", "CROSS JOIN <relation>",
             "JOIN <relation> USING (<columns>)", "NATURAL JOIN <relation>", "CROSS JOIN UNNEST(<e>)~ WITH ORDINALITY~ "
             "AS u (<columns>)", "LEFT JOIN LATERAL TABLE(<plain>(<e>)) AS f (x) ON TRUE",
             "JOIN <table> FOR SYSTEM_TIME AS OF t.ts AS r ON <p>", ", LATERAL (<block>) AS l"),
    "side": ("LEFT", "LEFT OUTER", "RIGHT", "FULL OUTER", "INNER"),
    "relation": ("<table>", "<table> AS <name>", "<table> <options_hint>", "(<query>) AS <name>",
                 "(VALUES (<e>, <e>)) AS v (a, b)", "<tvf> AS <name>", "(<table> <join>)", "<matched>"),
    "tvf": ("TABLE(TUMBLE(TABLE <table>, DESCRIPTOR(ts), <interval>~, <interval>~))",
            "HOP(DATA => TABLE <table>, TIMECOL => DESCRIPTOR(ts), SLIDE => <interval>, SIZE => <interval>)",
            "CUMULATE((<block>), DESCRIPTOR(ts), <interval>, <interval>)",
            "TABLE(SESSION(TABLE <table> PARTITION BY (<columns>), DESCRIPTOR(ts), <interval>))",
            "<plain>(input => TABLE <table> PARTITION BY a ORDER BY ts, on_time => DESCRIPTOR(ts), uid => <string>)",
            "ML_PREDICT(TABLE <table>, MODEL m, DESCRIPTOR(a, b))"),
    "matched": ("<table>", "<table> MATCH_RECOGNIZE (PARTITION BY a ORDER BY ts MEASURES LAST(B.x) AS y~ ONE ROW PER "
                "MATCH~~ AFTER MATCH SKIP <skip>~ PATTERN (A B<times> C?)~ WITHIN <interval>~ DEFINE B AS <p>) AS m"),
    "skip": ("PAST LAST ROW", "TO NEXT ROW", "TO FIRST B", "TO LAST B"),
    "times": ("+", "*", "{2}", "{2,}", "{,3}", "{1,3}?", "+?"),
    "hint": ("/*+ STATE_TTL('a' = '1d') */", "/*+ BROADCAST(t), LOOKUP('table' = 'x', 'async' = 'true') */"),
    "options_hint": ("/*+ OPTIONS(<options>) */",),
}  # fmt: skip

EXPRESSIONS: Mapping[str, Sequence[str]] = {
    "e": ("<v>", "<v>", "<p>"),
    "v": ("<column>", "<literal>", "<column>", "<v> <operator> <v>", "(<e>)", "-<column>", "<call>", "<cast>", "<case>",
          "<access>", "<constructor>", "(<query>)", "<json>", "<windowed>"),
    "p": ("<column> = <literal>", "<v> <comparison> <v>", "<column> <> <v> AND (<p>)", "(<p>) OR <column> > <v>", "NOT (<p>)", "(<p>)",
          "<column> IS~ NOT~ <is>", "<v>~ NOT~ BETWEEN~ SYMMETRIC~ <column> AND <literal>",
          "<v>~ NOT~ IN (<literal>, <v>)", "<column>~ NOT~ IN (<query>)", "~NOT ~EXISTS (<query>)",
          "<column>~ NOT~ LIKE <string>~ ESCAPE '!'~", "<column> SIMILAR TO <string>", "<column> = ANY (<query>)",
          "(<e>, <e>) OVERLAPS (<e>, <e>)"),
    "is": ("NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT FROM <literal>", "JSON", "JSON OBJECT"),
    "operator": ("+", "-", "*", "/", "%", "||"),
    "comparison": ("=", "<>", "<", "<=", ">", ">="),
    "column": ("a", "t.b", "db.t.c", "`a b`", "`we``ird`", "x.y.z", "ts", "type", "value"),
    "literal": ("1", "<string>", "1.5", "1e3", "0.5E-3", "NULL", "TRUE", "FALSE", "X'1F'", "<interval>", "DATE '2026-01-31'",
                "TIME '10:00:00'", "TIMESTAMP '2026-01-31 10:00:00.123'", r"U&'\0041b'", "U&'!0041' UESCAPE '!'"),
    "string": ("'x'", "''", "'it''s'", "'a -- b'", "'/* c */'", "'ä;'", "'%_'"),
    "call": ("<function>(<e>)", "<function>()", "<function>(<e>, <e>)", "COALESCE(<e>, <e>)", "IF(<p>, <e>, <e>)",
             "<aggregate>", "TRIM(BOTH <v> FROM <v>)", "SUBSTRING(<v> FROM 1 FOR 2)", "POSITION(<v> IN <v>)",
             "OVERLAY(<v> PLACING <v> FROM 1 FOR 2)", "EXTRACT(<unit> FROM <v>)", "FLOOR(<v> TO <unit>)", "CEIL(<e>)",
             "TIMESTAMPADD(<unit>, 1, <e>)", "TIMESTAMPDIFF(<unit>, <e>, <e>)", "CURRENT_TIMESTAMP", "LOCALTIME",
             "cat.db.fn(<e>)", "<plain>(a => <e>, b => DEFAULT)"),
    "aggregate": ("COUNT(*)", "SUM(DISTINCT <e>)", "COUNT(DISTINCT <e>, <e>)", "MAX(<e>) FILTER (WHERE <p>)",
                  "LISTAGG(<e>, ';')", "LISTAGG(<e>) WITHIN GROUP (ORDER BY <order>)", "ARRAY_AGG(<e> ORDER BY <order>)",
                  "FIRST_VALUE(<e>)", "ARRAY_AGG(<e> IGNORE NULLS)", "LAST_VALUE(<e>) RESPECT NULLS",
                  "ARRAY_AGG(DISTINCT <e> RESPECT NULLS) FILTER (WHERE <p>)", "LAST_VALUE(<e> IGNORE NULLS) OVER w"),
    "windowed": ("ROW_NUMBER() OVER (<over>)", "SUM(<e>) OVER w", "LAG(<column>, 1) OVER (<over>)"),
    "over": ("ORDER BY <order>", "PARTITION BY <e>, <e> ORDER BY <order> <frame>", "PARTITION BY <e>"),
    "frame": ("ROWS 2 PRECEDING", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
              "RANGE BETWEEN <interval> PRECEDING AND CURRENT ROW", "ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING"),
    "json": ("JSON_OBJECT(KEY <string> VALUE <e>~ ABSENT ON NULL~)", "JSON_ARRAY(<e>, <e>~ NULL ON NULL~)",
             "JSON_VALUE(<column>, '$.a'~ RETURNING <type>~~ DEFAULT <literal> ON EMPTY~~ ERROR ON ERROR~)",
             "JSON_QUERY(<column>, 'lax $.a'~ WITH CONDITIONAL ARRAY WRAPPER~~ EMPTY ARRAY ON EMPTY~)",
             "JSON_EXISTS(<column>, '$'~ FALSE ON ERROR~)", "JSON_OBJECTAGG(KEY <column> VALUE <e>)",
             "JSON_ARRAYAGG(<e>)", "JSON_OBJECT()"),
    "cast": ("CAST(<e> AS <type>)", "TRY_CAST(<e> AS <type>)"),
    "case": ("CASE WHEN <p> THEN <e>~ ELSE <e>~ END", "CASE <v> WHEN <literal> THEN <v> WHEN <v> THEN <v> END"),
    "access": ("a[1]", "<column>[<e>]", "(<e>)[<literal>]", "(<column>).f", "fn(<e>).f.g"),
    "constructor": ("ARRAY[<e>, <e>]", "MAP[<e>, <e>]", "ROW(<e>, <e>)", "(<e>, <e>)", "ARRAY[]"),
}  # fmt: skip

PARTS: Mapping[str, Sequence[str]] = {
    "table": ("t", "db.t", "cat.db.t", "`my table`"),
    "name": ("n", "`a name`", "total", "rn"),
    "plain": ("fn", "other"),
    "columns": ("a", "a, b", "`a b`, c"),
    "options": ("'a' = 'b'", "'a.b' = <string>, 'c' = '1 min'"),
    "elements": ("<element>", "<element>, <element>", "<element>, WATERMARK FOR ts AS <e>",
                 "<element>, PRIMARY KEY (<columns>) NOT ENFORCED"),
    "element": ("<name> <type>~ NOT NULL~~ COMMENT <string>~", "<name> AS <e>",
                "<name> <type> METADATA~ FROM <string>~~ VIRTUAL~"),
    "type": (*PLAIN, *(f"{name}(3)" for name in (*SIZED, *DECIMALS, *TIMES)), "DECIMAL(10, 2)", "ARRAY<<type>>",
             "MAP<<type>, <type>>", "MULTISET<<type>>", "ROW<a <type>, `b c` <type> 'doc'>", "<type> NOT NULL ARRAY",
             "TIMESTAMP(3) WITH LOCAL TIME ZONE", "INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH",
             "RAW('a.B', 'xyz')", "STRUCTURED<'a.B', f <type>>"),
    "unit": UNITS,
    "interval": ("INTERVAL '1' DAY", "INTERVAL '-10' SECOND", "INTERVAL '1:30' HOUR TO MINUTE", "INTERVAL '1-6' YEAR TO MONTH",
                 "INTERVAL '100' HOUR(3)", "INTERVAL '1 02:03:04.5' DAY TO SECOND"),
    "function": tuple(CALLS),
    "example": tuple(
        row.example for row in ROWS if row.kind in (Kind.STATEMENT, Kind.QUERY, Kind.HINT) and row.status != Status.REFUSE
    ),
}  # fmt: skip

GRAMMAR: Mapping[str, Sequence[str]] = {**QUERIES, **EXPRESSIONS, **PARTS}
"""Every production by its name; the first text of each leads to an end."""

PIECES = re.compile(r"<(\w+)>|~([^~]*)~")

Choose = Callable[[int], int]
"""Gives a number from 0 up to one less than what it is given."""


def write(name: str, choose: Choose, depth: int = 0) -> str:
    """A text of the production `name`."""
    texts = GRAMMAR[name]
    return fill(texts[0 if depth > DEPTH else choose(len(texts))], choose, depth)


def fill(text: str, choose: Choose, depth: int) -> str:
    """A production's text with its names and options replaced."""
    written = []
    for fixed, name, option in pieces(text):
        if fixed:
            written.append(fixed)
        elif name:
            written.append(write(name, choose, depth + 1))
        elif depth <= DEPTH and choose(2):
            written.append(fill(option, choose, depth))
    return "".join(written)


@cache
def pieces(text: str) -> tuple[tuple[str, str, str], ...]:
    """A text cut into fixed parts, names and options, of which one is there and two are empty."""
    if text in GRAMMAR["example"]:
        return ((text, "", ""),)
    found, at = [], 0
    for match in PIECES.finditer(text):
        if match[1] is not None and match[1] not in GRAMMAR:
            continue
        if match.start() > at:
            found.append((text[at : match.start()], "", ""))
        found.append(("", match[1] or "", match[2] or ""))
        at = match.end()
    if at < len(text):
        found.append((text[at:], "", ""))
    return tuple(found)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A statement by the grammar."""
    return write("statement", lambda most: draw(st.integers(0, most - 1)))
