"""EXPLAIN: stable text, made without an engine, a broker, or anything started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.sql.check.explain import explain_lines
from penstock.sql.convert.statement import parse_statement
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.script.splitter import split
from penstock.sql.statements.statement import Explain
from tests.sql.sql_objects import new_namespace

TABLES = """
CREATE TABLE clicks (
  id BIGINT, url STRING, at TIMESTAMP(3), twice AS id * 2, WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json',
        'scan.startup.mode' = 'earliest-offset', 'scan.max-records-per-batch' = '100');
CREATE TABLE a (id BIGINT, url STRING) WITH ('connector' = 'delta', 'path' = 'a');
CREATE TABLE b (id BIGINT) WITH ('connector' = 'delta', 'path' = 'b');
CREATE TABLE names (id BIGINT, name STRING) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:n.db',
  'table-name' = 'names', 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '9');
CREATE VIEW last_clicks AS SELECT id, url, at FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY at DESC) AS n
  FROM clicks) WHERE n = 1;
CREATE TABLE per_set (url STRING, id BIGINT, g BIGINT, n BIGINT, PRIMARY KEY (url, id, g) NOT ENFORCED)
  WITH ('connector' = 'print');
CREATE TABLE per_minute (start_at TIMESTAMP(3), n BIGINT) WITH ('connector' = 'delta', 'path' = 'm');
"""


def explained(text: str, tables: str = TABLES) -> str:
    """What EXPLAIN says, as one text."""
    namespace = new_namespace(tables)
    (statement,) = (parse_statement(one, namespace) for one in split(text, "f.sql"))
    assert isinstance(statement, Explain)
    planner = Planner(namespace=namespace, project=Path("/nowhere"))
    return "\n".join(explain_lines(statement, planner))


def test_an_insert_shows_what_it_reads_does_and_writes() -> None:
    """Only the columns that are needed are decoded; the watermark is not followed where nothing waits for it."""
    text = explained("EXPLAIN PLAN FOR INSERT INTO a SELECT twice, url FROM clicks WHERE id > 3;")

    assert (
        text
        == """\
INSERT INTO a
write a (delta), takes [I]
- rows: inserts
- delivery: exactly-once
- written by the reading tasks
  Project twice, url [spark] [I]
    Filter id > 3 [spark] [I]
      Scan clicks (kafka) [spark] [I]
      - columns: id, url, twice
      - computed: twice AS id * 2
      - filter: id > 3, by the tasks that read
      - watermark: at AS at - INTERVAL '1' SECOND (not followed: nothing waits for it)
      - splits: a task for each, small ones share one, at most 100 records in a batch, new ones are looked for every 1 s
      - end: none"""
    )


def test_a_lookup_shows_its_keys_and_its_cache() -> None:
    """Or why the table is read whole."""
    query = "EXPLAIN SELECT c.url, n.name FROM clicks AS c JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON "

    hint = (
        "/*+ LOOKUP('table' = 'n', 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', "
        "'fixed-delay' = '500 ms', 'max-attempts' = '3') */"
    )
    by_key = explained(f"{query} c.id = n.id;")
    again = explained(f"{query} c.id = n.id;".replace("SELECT", f"SELECT {hint}"))
    whole = explained(f"{query} c.id = n.name;")

    assert (
        """\
    LookupJoin INNER on c.id = n.id [spark] [I]
      Scan clicks AS c (kafka) [spark] [I]
"""
        in by_key
    )
    assert (
        """\
      Scan names AS n (jdbc) [spark] [I]
      - columns: id, name
      - looked up: the rows of each batch's keys (id), asked for by key
      - lookup cache: PARTIAL, in each worker process: at most 9 rows
"""
        in by_key
    )
    assert "- keys without rows: asked for again after 0.5 s, 3 times at most\n" in again
    assert "asked for again" not in by_key
    assert (
        "- looked up: read anew in each batch, whole, as the database is not asked for name by a BIGINT\n"
        in whole
    )


def test_a_star_whose_reader_names_its_columns_asks_for_no_others() -> None:
    """As in Flink's Top-N, and in a view of it."""
    ranked = "SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY at DESC) AS n FROM clicks"
    texts = [
        explained(f"EXPLAIN SELECT {what} FROM ({ranked}) WHERE n = 1;")
        for what in ("id", "id, twice", "*")
    ]
    columns = [
        line.strip(" -") for text in texts for line in text.splitlines() if "columns: " in line
    ]

    assert columns == [
        "columns: id, at",
        "columns: id, at, twice",
        "columns: id, url, at, twice",
    ]


def test_a_window_shows_its_state_and_the_watermark_that_closes_it() -> None:
    """In the words of the query."""
    text = explained(
        "EXPLAIN INSERT INTO per_minute SELECT window_start, COUNT(*) "
        "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    )

    assert "watermark: at AS at - INTERVAL '1' SECOND\n" in text
    assert (
        """\
  Aggregate by window_start, window_end: COUNT(*) [spark] [I]
  - first phase in the reading tasks
  - state: groups of open windows
  - bound: the watermark of clicks
    WindowAssign TUMBLE at, size 1 min [spark] [I]
"""
        in text
    )


def test_grouping_sets_are_shown_in_the_words_of_the_query() -> None:
    """The columns that not every set has; of a window the state says what it is grouped by."""
    window = explained(
        "EXPLAIN INSERT INTO a SELECT COUNT(*), url FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), "
        "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, ROLLUP (url)"
    )
    key = explained(
        "EXPLAIN INSERT INTO per_set SELECT url, id, GROUPING_ID(url, id), COUNT(*) FROM last_clicks "
        "GROUP BY GROUPING SETS (url, id)"
    )

    assert (
        "  Aggregate by window_start, window_end, url, the grouping set: COUNT(*) [spark] [I]\n"
        "  - grouping sets: (url), (); each row counts in every one\n"
        "  - state: groups of open windows\n"
    ) in window
    assert "- grouping sets: (url), (id); each row counts in every one\n" in key
    assert "Aggregate by url, id, GROUPING_ID(url, id), the grouping set: COUNT(*) [stage " in key


def test_a_statement_set_shows_whether_it_reads_once() -> None:
    """One read and two sinks; or a query each, and why."""
    shared = explained(
        "EXPLAIN STATEMENT SET BEGIN INSERT INTO a SELECT id, url FROM clicks; INSERT INTO b SELECT id FROM clicks; END"
    )
    apart = explained(
        "EXPLAIN EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT id, url FROM clicks; INSERT INTO b SELECT 1; END"
    )

    assert shared.startswith("STATEMENT SET: one query")
    assert shared.count("columns: ") == 1
    assert shared.count("Scan clicks (kafka), as above [spark]") == 1
    assert [line.strip() for line in shared.splitlines() if "write" in line] == [
        "STATEMENT SET: one query, which reads once and writes every sink",
        "write a (delta), takes [I]",
        "write b (delta), takes [I]",
    ]
    assert apart.startswith("STATEMENT SET: a query per INSERT (an INSERT reads no table")


def test_a_query_shows_its_reads() -> None:
    """It has no sink."""
    text = explained("EXPLAIN SELECT COUNT(*) FROM clicks")

    assert text.startswith("SELECT\n  Aggregate: COUNT(*) [spark update mode] [I,UA,D]\n")
    assert "  - key: none: one row in all\n" in text
    assert "    - columns: none, rows are counted\n" in text


@pytest.mark.parametrize("detail", ["ESTIMATED_COST"])
def test_details_that_are_not_there_are_refused(detail: str) -> None:
    """By their names, with what there is instead."""
    with pytest.raises(UnsupportedError, match=detail) as caught:
        explained(f"EXPLAIN CHANGELOG_MODE, {detail} SELECT id FROM clicks")

    assert caught.value.hint


def test_changelog_modes_are_told_of_every_operator() -> None:
    """CHANGELOG_MODE adds its key."""
    query = "SELECT url, n + 1 AS m FROM (SELECT url, COUNT(*) AS n FROM clicks GROUP BY url)"
    plain, keys = explained(f"EXPLAIN {query}"), explained(f"EXPLAIN CHANGELOG_MODE {query}")

    assert plain.splitlines()[1:3] == [
        "  Project url, n + 1 AS m [spark update mode] [I,UA,D]",
        "    Aggregate by url: COUNT(*) [spark update mode] [I,UA,D]",
    ]
    assert keys.splitlines()[1:3] == [
        "  Project url, n + 1 AS m [spark update mode] [I,UA,D]",
        "  - key: url",
    ]
    assert [line for line in keys.splitlines() if "key: " not in line] == [
        line for line in plain.splitlines() if "key: " not in line
    ]


def test_an_updating_query_is_told_with_the_stages_that_keep_it() -> None:
    """Their names are those of the checkpoint; an input of theirs is what Spark streams."""
    text = explained(
        "EXPLAIN SELECT n, COUNT(*) AS c FROM (SELECT url, COUNT(*) AS n FROM clicks GROUP BY url) GROUP BY n"
    )

    assert text.splitlines()[:11] == [
        "SELECT",
        "  Aggregate by n: COUNT(*) [stage group_1] [I,UB,UA,D]",
        "  - key: n",
        "  - state: COUNT(*)",
        "  - bound: none",
        "  - run by a keyed operator",
        "    Aggregate by url: COUNT(*) [stage group_0] [I,UB,UA,D]",
        "    - key: url",
        "    - state: COUNT(*)",
        "    - bound: none",
        "    - run by a keyed operator",
    ]
    assert text.splitlines()[11] == "      Scan clicks (kafka) [spark, feed_0] [I]"


def test_a_temporal_join_is_told_with_the_watermark_that_bounds_it() -> None:
    """Its rows stay; there is no advice to bound what is bounded."""
    text = explained(
        "EXPLAIN CHANGELOG_MODE, PLAN_ADVICE INSERT INTO a SELECT c.id, l.url FROM clicks AS c "
        "JOIN last_clicks FOR SYSTEM_TIME AS OF c.at AS l ON c.id = l.id"
    )

    assert "TemporalJoin INNER on c.id = l.id, as of c.at [stage temporal_0] [I]" in text
    assert "bound: the watermark of its table; one version" in text
    assert "nothing bounds" not in text


def test_advice_names_what_only_looks_bounded() -> None:
    """A join without a bound in time keeps all rows, though its tables have watermarks."""
    text = explained(
        "EXPLAIN PLAN_ADVICE INSERT INTO b SELECT c.id FROM clicks AS c JOIN clicks AS d ON c.id = d.id"
    )

    assert "  - state: the rows of both sides (INNER join)\n    - bound: none\n" in text
    assert "  Join INNER on c.id = d.id: nothing bounds its state; give the tables" in text


def test_advice_names_what_grows_and_what_is_read_for_nothing() -> None:
    """And says so where there is nothing to say."""
    window = explained(
        "EXPLAIN PLAN_ADVICE INSERT INTO per_minute SELECT window_start, COUNT(*) "
        "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    )
    none = explained("EXPLAIN PLAN_ADVICE INSERT INTO a SELECT id, url FROM clicks")

    assert "'scan.watermark.idle-timeout' = '1 min' leaves it out" in window
    assert none.endswith("advice:\n  nothing to say")


def test_advice_names_what_reads_rows_again() -> None:
    """And what to write instead: distinct values of a key have a way of their own."""
    per_url = "(SELECT url, COUNT(*) AS n FROM clicks GROUP BY url)"
    highest = explained(f"EXPLAIN PLAN_ADVICE SELECT n, MAX(url) FROM {per_url} GROUP BY n")
    distinct = explained(f"EXPLAIN PLAN_ADVICE SELECT COUNT(DISTINCT n) FROM {per_url}")
    summed = explained(f"EXPLAIN PLAN_ADVICE SELECT n, SUM(n) FROM {per_url} GROUP BY n")

    assert (
        "  Aggregate by n: MAX(url): each change of a key reads all of its rows again, for MAX(url): bound the rows of a "
        "key by a window, or aggregate by more columns in a query below"
    ) in highest
    assert (
        "reads all rows again, in one task, for COUNT(DISTINCT n): COUNT(x) over SELECT DISTINCT of the key and x reads "
        "less; else bound"
    ) in distinct
    assert "again" not in summed


def test_the_plan_as_json_is_its_operators_as_a_tree() -> None:
    """With the types of columns, and the parts of what the text says."""
    text = explained("EXPLAIN JSON_EXECUTION_PLAN INSERT INTO a SELECT id, url FROM clicks")
    document = json.loads(text.partition("plan as JSON:\n")[2])

    assert (document["version"], document["statement"]) == (1, "INSERT INTO a")
    assert document["sink"] == {
        "table": "a",
        "connector": "delta",
        "takes": ["I"],
        "key": None,
        "rows": "inserts",
        "delivery": "exactly-once",
        "written by": "the reading tasks",
    }
    project = document["plan"]
    assert (project["operator"], project["runs"], project["changes"]) == ("Project", "spark", ["I"])
    assert project["columns"] == [
        {"name": "id", "type": "BIGINT"},
        {"name": "url", "type": "STRING"},
    ]
    (scan,) = project["inputs"]
    assert scan["operator"] == "Scan"
    assert scan["details"]["reads"] == ["id", "url"]
    assert scan["watermark"] == {
        "column": "at",
        "expression": "at - INTERVAL '1' SECOND",
        "followed": False,
    }


def test_details_of_a_statement_set_are_told_by_its_inserts() -> None:
    """Each under its name."""
    text = explained(
        "EXPLAIN PLAN_ADVICE STATEMENT SET BEGIN INSERT INTO a SELECT id, url FROM clicks; "
        "INSERT INTO b SELECT id FROM clicks; END"
    )

    assert text.partition("advice:\n")[2] == (
        "  INSERT INTO a\n    nothing to say\n  INSERT INTO b\n    nothing to say"
    )


def test_a_table_made_of_a_query_is_explained_with_its_columns() -> None:
    """Nothing is made; what was asked for beside the plan is told of the query that fills the table."""
    text = explained(
        "EXPLAIN CHANGELOG_MODE CREATE TABLE made WITH ('connector' = 'delta', 'path' = 'made') "
        "AS SELECT id, CAST(url AS CHAR(3)) AS short FROM clicks"
    )

    lines = text.splitlines()
    assert lines[:5] == [
        "CREATE TABLE made",
        "  id BIGINT",
        "  short CHAR(3)",
        "INSERT INTO made",
        "write made (delta), takes [I]",
    ]
    assert "    - columns: id, url" in lines


def test_the_advice_leaves_out_state_that_a_hint_bounds() -> None:
    """Each side of a join for itself; 0 s is no bound."""
    query = "SELECT {} c.url FROM clicks AS c JOIN clicks AS d ON c.id = d.id;"
    hints = ("'c' = '1 d', 'd' = '2 d'", "'c' = '1 d'", "'c' = '1 d', 'd' = '0 s'")
    found = [
        explained(
            "EXPLAIN CHANGELOG_MODE, PLAN_ADVICE INSERT INTO a (url) "
            + query.format(f"/*+ STATE_TTL({hint}) */")
        )
        for hint in hints
    ]

    assert ["1 operator keeps state that nothing bounds" in text for text in found] == [
        False,
        True,
        True,
    ]
    assert (
        "bound: of the left side STATE_TTL, 86400 s after the last change; of the right side none"
        in found[2]
    )


def test_the_page_shows_what_explain_says() -> None:
    """The first example of docs/explain.md, the statement and what follows it."""
    page = (Path(__file__).parents[3] / "docs" / "explain.md").read_text(encoding="utf-8")
    lines = page.splitlines()
    first = lines.index("    EXPLAIN INSERT INTO histogram")
    last = next(n for n in range(first, len(lines)) if lines[n] and not lines[n].startswith("    "))
    statement, _, said = (
        "\n".join(line.removeprefix("    ") for line in lines[first:last]).strip().partition("\n\n")
    )
    tables = """
CREATE TABLE bid (auction BIGINT, dateTime TIMESTAMP(3), WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND)
WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json',
      'scan.startup.mode' = 'earliest-offset');
CREATE TABLE histogram (c BIGINT, n BIGINT, PRIMARY KEY (c) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = 'h', 'properties.bootstrap.servers' = 'nowhere:1',
      'key.format' = 'json', 'value.format' = 'json');
"""

    assert explained(statement, tables) == said
