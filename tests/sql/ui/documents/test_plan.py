"""Operators of a plan with what they keep, and sinks with their commits: whose each figure is."""

from __future__ import annotations

from penstock.connector.commits import CommitTotals, SinkCommit
from penstock.sql.checkpoint.plan_record import (
    Mechanism,
    OperatorRecord,
    PlanRecord,
    SinkRecord,
)
from penstock.sql.ui.documents.plan import StateSize, operator_documents, sink_documents

JOIN = OperatorRecord(
    name="Join on a = b",
    level=0,
    mechanism=Mechanism.KEYED,
    key=("a",),
    keeps="the rows of both sides",
    bound="none",
    stages=("s1",),
)
WINDOW = OperatorRecord(
    name="Aggregate by k", level=1, mechanism=Mechanism.SPARK, keeps="open windows", bound="w"
)
SCAN = OperatorRecord(name="Scan t", level=2, mechanism=Mechanism.READING_TASKS)
PLAN = PlanRecord(operators=(JOIN, WINDOW, SCAN))


def size(name: str, rows: int | None, size_bytes: int) -> StateSize:
    return StateSize(name=name, rows=rows, size_bytes=size_bytes)


def nothing(_: str) -> None:
    """Tells of no stage."""


def test_inputs_of_a_stage_are_added_and_the_store_is_of_the_operator_that_keeps_in_spark() -> None:
    """What Spark does not count is not known; an operator without state has neither."""
    found = operator_documents(
        PLAN,
        [size("stateStoreSave", None, 9), size("s1 left", 3, 10), size("s1 right", 4, 5)],
        nothing,
    )

    assert [(each.get("rows"), each.get("bytes")) for each in found] == [
        (7, 15),
        (None, 9),
        (None, None),
    ]
    assert found[0]["key"] == ["a"]
    assert found[2] == {"name": "Scan t", "level": 2, "mechanism": "reading tasks"}


def test_a_stage_of_spark_has_the_bytes_of_its_files() -> None:
    """Its rows are not known."""
    (join, *_) = operator_documents(PLAN, [], {"s1": 70}.get)
    assert (join.get("rows"), join["bytes"]) == (None, 70)


def test_stores_that_no_plan_explains_stand_by_their_own_names() -> None:
    """Two stores for one operator: none is said to be its own. Without a plan there is nothing else."""
    stores = [size("symmetricHashJoin", 1, 2), size("stateStoreSave", 3, 4)]
    found = operator_documents(PLAN, stores, nothing)

    assert "bytes" not in found[1]
    assert [each["name"] for each in found[3:]] == ["symmetricHashJoin", "stateStoreSave"]
    assert operator_documents(None, stores, nothing) == found[3:]


def test_a_sink_has_what_it_reported_and_nothing_in_its_place() -> None:
    """Versions and files are of Delta tables, transactions of topics."""
    sinks = (
        SinkRecord(name="a", writer="spark", guarantee="exactly-once"),
        SinkRecord(name="b", writer="spark", guarantee="at-least-once"),
    )
    totals = CommitTotals().add(SinkCommit(sink="a", took_s=0.25, version=7, files=2))
    topic = CommitTotals().add(SinkCommit(sink="b", transactions=3))
    delta, kafka = sink_documents(PlanRecord(sinks=sinks), {"a": totals, "b": topic}, "t") or []

    assert delta == {
        "name": "a",
        "writer": "spark",
        "guarantee": "exactly-once",
        "watermark": "t",
        "commits": 1,
        "commit_ms": 250,
        "version": 7,
        "files": 2,
    }
    assert kafka.keys() == {"name", "writer", "guarantee", "watermark", "transactions"}
    (alone,) = sink_documents(PlanRecord(sinks=sinks[:1]), {"": totals}, None) or []
    assert alone["version"] == 7
    assert sink_documents(None, {}, None) is None
