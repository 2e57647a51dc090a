"""What a start does with a checkpoint, on a real broker: new, resume, incompatible, damaged, from scratch."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.catalog.errors import InputErrors
from penstock.sql.check.offline_plan import offline_statement_of, plan_scripts_offline
from penstock.sql.check.script_check import check_scripts
from penstock.sql.checkpoint.directory import checkpoint_files
from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.cli.output.plan_text import is_incompatible, plan_document, plan_lines, plans_of
from penstock.sql.runner.plan import plan_scripts
from penstock.sql.runner.run_mode import RunMode
from penstock.sql.script.files import read_script
from penstock.sql.session.session import Session
from tests.integration.pipeline import delta_rows
from tests.kafka_server import KafkaServer

SCRIPT = """
CREATE TABLE IF NOT EXISTS clicks (id BIGINT, url STRING) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE IF NOT EXISTS copies (id BIGINT) WITH ('connector' = 'delta', 'path' = 'copies');
INSERT INTO copies SELECT id FROM clicks;
"""


def planned(session: Session, script: Path) -> tuple[dict[str, Any], list[str], bool]:
    """What `penstock plan` says of the last statement, as JSON and as text, and whether it refuses."""
    checked = check_scripts((read_script(script),), session.context, variables={}, env={})
    scripts = plan_scripts(checked, session.spark, session.context, judges=True)
    named = [(one.pipelines, one.queries) for script in scripts for one in script.statements]
    assert all(names == tuple(query.pipeline for query in found) for names, found in named)
    judged = [[offline_statement_of(one) for one in each.statements] for each in scripts]
    mode = RunMode.AVAILABLE_NOW
    plans = plans_of(scripts, judged, mode, checkpoint_files(session.spark), from_scratch=False)
    document = json.loads(json.dumps(plan_document(plans)))
    assert without_spark(session, script) == document
    return document["statements"][-1], plan_lines(plans), any(map(is_incompatible, plans))


def without_spark(session: Session, script: Path) -> dict[str, Any]:
    """What it says where no engine is asked."""
    checked = check_scripts((read_script(script),), session.context, variables={}, env={})
    judged = plan_scripts_offline(checked, session.context)
    plans = plans_of(
        checked,
        judged,
        RunMode.AVAILABLE_NOW,
        lambda location: LocalFiles(location=location),
        from_scratch=False,
    )
    document: dict[str, Any] = json.loads(json.dumps(plan_document(plans)))
    return document


def test_each_start_is_judged_before_it_happens(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """New, then resumed by partition; a damaged file is named and refused (case 44); from scratch sets it aside."""
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        kafka.produce(topic, [json.dumps({"id": n}) for n in range(10)], partition=partition)
    script = project / "job.sql"
    text = SCRIPT.format(topic=topic, bootstrap=kafka.bootstrap)
    script.write_text(text, encoding="utf-8")
    checkpoint = project / ".penstock" / "checkpoints" / "job" / "copies"

    with penstock.connect(spark) as session:
        new, lines, refused = planned(session, script)

        assert (new["verdict"]["kind"], refused) == ("new", False)
        assert new["verdict"]["sources"][0]["lag"] == 20
        assert f"{topic}-1 at 0, end 10, lag 10" in "\n".join(lines)
        assert not checkpoint.exists()

        session.run_file(script, available_now=True)
        kafka.produce(topic, [json.dumps({"id": n}) for n in range(10, 13)], partition=1)
        resumed, lines, refused = planned(session, script)

        assert (resumed["verdict"]["kind"], resumed["verdict"]["batch"], refused) == (
            "resume",
            1,
            False,
        )
        assert resumed["verdict"]["sources"][0]["splits"][1] == {
            "split": f"{topic}-1",
            "start": 10,
            "end": 13,
            "lag": 3,
        }
        assert "resume from batch 1" in "\n".join(lines)
        assert resumed["operators"][0].endswith(" [spark] [I]")

        # one byte of the offsets changes, and the .crc beside them is of what they were
        offsets = checkpoint / "offsets" / "0"
        whole = offsets.read_text(encoding="utf-8")
        offsets.write_text(whole.replace('"to": 10', '"to": 11'), encoding="utf-8")
        damaged, lines, refused = planned(session, script)

        assert (damaged["verdict"]["kind"], refused) == ("incompatible", True)
        assert re.search(r"copies is damaged: offsets/0 .*\.crc", damaged["verdict"]["reason"])
        with pytest.raises(InputErrors, match=r"offsets/0 .*\.crc"):
            session.run_file(script, available_now=True)

        (job,) = session.run_file(script, available_now=True, from_scratch=True)
        job.await_termination(60)
        aside = [path for path in checkpoint.parent.iterdir() if path.name != "copies"]
        again, _, _ = planned(session, script)

    assert [path.name.partition(".set-aside-")[0] for path in aside] == ["copies"]
    assert (aside[0] / "offsets" / "0").read_text(encoding="utf-8") != whole
    assert again["verdict"]["batch"] == 1
    # the new query has a new id: the sink takes the rows again, as the option says
    assert delta_rows(project / "copies", "SELECT count(*), count(DISTINCT id) FROM {table}") == [
        (20 + 23, 13)
    ]


def test_what_a_start_would_be_refused_for_is_told_before_it(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """A target that is gone, and records that were deleted unread: nothing is written into the checkpoint."""
    topic = kafka.create_topic()
    kafka.produce(topic, [json.dumps({"id": n}) for n in range(3)])
    script = project / "job.sql"
    script.write_text(SCRIPT.format(topic=topic, bootstrap=kafka.bootstrap), encoding="utf-8")

    with penstock.connect(spark) as session:
        session.run_file(script, available_now=True)
        shutil.rmtree(project / "copies")
        gone, _, refused = planned(session, script)
        kafka.produce(topic, [json.dumps({"id": n}) for n in range(3)])
        kafka.delete_records(topic, {0: 5})
        lost, _, _ = planned(session, script)

    assert (refused, gone["verdict"]["kind"], lost["verdict"]["kind"]) == (
        True,
        "incompatible",
        "incompatible",
    )
    assert gone["verdict"]["reason"].endswith("copies is gone")
    assert "2 offsets were deleted unread" in lost["verdict"]["reason"]
    assert any("--from-scratch" in choice for choice in lost["verdict"]["choices"])


def test_another_query_is_incompatible_and_says_so_before_the_run(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """The operators that keep state changed; three ways on are told."""
    topic = kafka.create_topic()
    kafka.produce(topic, [json.dumps({"id": n, "at": "2026-01-01 00:00:00"}) for n in range(3)])
    window = "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    text = SCRIPT.replace("url STRING", "at TIMESTAMP(3), WATERMARK FOR at AS at").format(
        topic=topic, bootstrap=kafka.bootstrap
    )
    script = project / "job.sql"
    counted = text.replace("SELECT id FROM clicks", f"SELECT COUNT(*) {window}")
    script.write_text(counted, encoding="utf-8")

    with penstock.connect(spark) as session:
        session.run_file(script, available_now=True)
        script.write_text(counted.replace("COUNT(*)", "SUM(id)"), encoding="utf-8")
        one, lines, refused = planned(session, script)

    assert refused
    assert one["verdict"]["kind"] == "incompatible"
    assert "COUNT(*)" in one["verdict"]["reason"]
    assert len(one["verdict"]["choices"]) == 3
    assert sum("--from-scratch" in line for line in lines) == 1
