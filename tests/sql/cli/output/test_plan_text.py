"""What `penstock plan` prints, for people and for programs."""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.checkpoint.start_decision import (
    Incompatible,
    New,
    Resume,
    SourceStart,
    SplitStart,
)
from penstock.sql.cli.output.plan_text import (
    InsertPlan,
    QueryPlan,
    StatementPlan,
    is_incompatible,
    plan_document,
    plan_lines,
)

SPLITS = (
    SplitStart(split="clicks-0", start=150, end=200),
    SplitStart(split="clicks-1", start=40, end=40),
)
SOURCE = SourceStart(table="default_catalog.default_database.clicks", splits=SPLITS)
RESUMED = Resume(batch_id=7, replays=True, sources=(SOURCE,))
REFUSED = Incompatible(reason="the query changed", choices=("undo the change", "start over"))


def statement(*verdicts, kind="INSERT"):
    """A statement with a query for each verdict."""
    return StatementPlan(
        file="job.sql",
        line=3,
        kind=kind,
        subject="copies",
        queries=tuple(
            QueryPlan(sink=f"sink{n}", details={"pipeline": f"job/sink{n}"}, verdict=verdict)
            for n, verdict in enumerate(verdicts)
        ),
        inserts=(InsertPlan(sink="copies", operators=("operators: none",)),),
    )


def test_a_resumed_query_shows_batch_and_offsets() -> None:
    """Each partition by its name, with its end and lag."""
    assert plan_lines([statement(RESUMED)]) == [
        "job.sql",
        "   1  INSERT copies",
        "        pipeline    job/sink0",
        "        verdict     resume from batch 7, which was planned before and reads the same again",
        "        starts      clicks, 50 to be read",
        "                      clicks-0 at 150, end 200, lag 50",
        "                      clicks-1 at 40, end 40, lag 0",
        "        operators: none",
    ]


def test_an_incompatible_one_shows_why_and_the_ways_on() -> None:
    """One line each; it is what makes the exit status."""
    plan = statement(REFUSED)

    assert is_incompatible(plan)
    assert not is_incompatible(statement(New()))
    assert plan_lines([plan])[3:6] == [
        "        verdict     incompatible: the query changed",
        "        help        undo the change",
        "        help        start over",
    ]


def test_the_queries_of_a_set_are_shown_by_their_sinks() -> None:
    """In both forms."""
    plan = statement(New(), RESUMED, kind="STATEMENT SET")

    lines = plan_lines([plan])
    (document,) = plan_document([plan])["statements"]

    assert [line for line in lines if line.startswith("      sink")] == [
        "      sink0",
        "      sink1",
    ]
    assert [(q["sink"], q["verdict"]["kind"]) for q in document["queries"]] == [
        ("sink0", "new"),
        ("sink1", "resume"),
    ]
    assert document["operators"] == {"copies": ["operators: none"]}


def test_programs_get_numbers() -> None:
    """Nothing has to be taken out of a text."""
    (document,) = plan_document([statement(RESUMED)])["statements"]

    assert document["verdict"] == {
        "kind": "resume",
        "batch": 7,
        "replays": True,
        "sources": [
            {
                "table": "default_catalog.default_database.clicks",
                "lag": 50,
                "note": None,
                "splits": [
                    {"split": "clicks-0", "start": 150, "end": 200, "lag": 50},
                    {"split": "clicks-1", "start": 40, "end": 40, "lag": 0},
                ],
            }
        ],
    }
    assert (document["line"], document["operators"]) == (3, ["operators: none"])


def test_who_writes_the_rows_is_said_before_the_operators() -> None:
    """Of an INSERT in both forms; of one that can be written in one way alone nothing is said."""
    insert = InsertPlan(
        sink="copies", operators=("operators: none",), writer="Spark: the table is partitioned"
    )
    plan = replace(statement(New()), inserts=(insert,))
    (document,) = plan_document([plan])["statements"]

    assert plan_lines([plan])[-2:] == [
        "        written by Spark: the table is partitioned",
        "        operators: none",
    ]
    assert document["written by"] == "Spark: the table is partitioned"
    assert document["operators"] == ["operators: none"]
    assert "written by" not in plan_document([statement(New())])["statements"][0]
