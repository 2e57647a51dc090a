"""`penstock plan` without Spark: verdicts from checkpoints, Delta's log and folders of this machine."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.source.state import SourceState, SplitState, encode_state
from penstock.sql.check.checkpoint_assignment import name_scripts_here
from penstock.sql.check.script_check import check_scripts
from penstock.sql.cli import spark as cli_spark
from penstock.sql.cli.commands import run_scripts as cli_script
from penstock.sql.cli.commands.app import app
from penstock.sql.execution.context import SessionContext
from penstock.sql.incremental.keyed.files.manifest import StateManifest
from penstock.sql.plan.query_location import insert_fingerprint
from penstock.sql.script.files import read_script
from tests.sql.cli.command_runner import CommandRunner

TABLES = """
CREATE TABLE src (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o (id BIGINT, name STRING) WITH ('connector' = 'delta', 'path' = '{path}');
CREATE TABLE p (id BIGINT, name STRING) WITH ('connector' = 'delta', 'path' = 'p');
"""
COPY = "INSERT INTO o SELECT id, name FROM src;"
SET = """EXECUTE STATEMENT SET BEGIN
INSERT INTO o SELECT id, name FROM src;
INSERT INTO p SELECT id, {name} FROM src;
END;"""
QUERY = "249ea227-af9b-4717-bde4-3deb8d8d38e7"


class Plans:
    """A project whose file `job.sql` is planned; Spark must not start."""

    def __init__(self, project):
        self.project = project
        self.runner = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})

    def write(self, insert=COPY, path="o"):
        (self.project / "job.sql").write_text(TABLES.format(path=path) + insert)

    def plan(self, *arguments):
        """The exit status and the last statement."""
        result = self.runner.invoke(app, ["plan", "job.sql", "--format", "json", *arguments])
        assert result.exit_code in {0, 2}, (result.output, result.exception)
        assert json.loads(result.stdout)["statements"], result.output
        return result.exit_code, json.loads(result.stdout)["statements"][-1]

    def begin(self, *, earlier=False):
        """Write what a run of the file leaves, of an `earlier` version too: batch 0 is done, all of a.json was read."""
        context = SessionContext(namespace=Namespace(SqlCatalog("sqlite://")), project=self.project)
        script = read_script(self.project / "job.sql")
        checked = check_scripts((script,), context, variables={}, env={})
        insert = name_scripts_here(checked, self.project)[0].statements[-1].analysed
        if earlier:
            insert = replace(insert, query=insert.earlier[0])
        folder = self.checkpoint
        for name in ("offsets", "commits", "penstock-identity"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "penstock-query.json").write_text(insert_fingerprint(insert).to_text())
        (folder / "metadata").write_text(json.dumps({"id": QUERY}))
        split = SplitState(split_id="a.json", owner="in", start=0, end=20)
        state = encode_state(SourceState(splits=(split,)))
        (folder / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(state)}")
        (folder / "commits" / "0").write_text("v1\n{}")

    @property
    def checkpoint(self):
        return self.project / ".penstock" / "checkpoints" / "job" / "o"

    def make_table(self, *, batch=0):
        """A Delta table that took a batch of the query."""
        log = self.project / "o" / "_delta_log"
        log.mkdir(parents=True)
        schema = json.dumps({"type": "struct", "fields": []})
        made = {"metaData": {"id": "t", "schemaString": schema}}
        took = {"txn": {"appId": QUERY, "version": batch}}
        (log / f"{0:020d}.json").write_text(json.dumps(made))
        (log / f"{1:020d}.json").write_text(json.dumps(took))


@pytest.fixture
def job(tmp_path, monkeypatch):
    def refuse(*_, **__):
        pytest.fail("Spark was started")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_TARGET", raising=False)
    monkeypatch.setattr(cli_spark, "start_spark", refuse)
    monkeypatch.setattr(cli_script, "open_spark", refuse)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1, "name": "x"}\n')
    plans = Plans(tmp_path)
    plans.write()
    return plans


def test_a_new_query_is_planned_without_spark(job):
    """Ends are asked of the source; nothing is written."""
    status, plan = job.plan()

    assert (status, plan["verdict"]["kind"]) == (0, "new")
    assert plan["verdict"]["sources"][0]["lag"] == 23
    assert plan["operators"][0].endswith(" [spark] [I]")
    assert not (job.project / ".penstock" / "checkpoints").exists()


def test_a_query_with_a_checkpoint_resumes(job):
    """From the batch behind the last that is done."""
    job.begin()
    job.make_table()

    status, plan = job.plan()

    assert (status, plan["verdict"]["kind"], plan["verdict"]["batch"]) == (0, "resume", 1)
    assert plan["verdict"]["sources"][0]["splits"] == [
        {"split": "a.json", "start": 20, "end": 23, "lag": 3}
    ]
    assert job.plan("--from-scratch")[1]["verdict"]["kind"] == "new"


def test_a_delta_table_that_is_gone_is_told_without_spark(job):
    """So is one whose log has a batch that the checkpoint has not planned."""
    job.begin()
    status, gone = job.plan()
    job.make_table(batch=4)
    _, ahead = job.plan()

    assert (status, gone["verdict"]["kind"]) == (2, "incompatible")
    assert gone["verdict"]["reason"].endswith("o is gone")
    assert "has batch 4 of this query" in ahead["verdict"]["reason"]


def test_a_file_that_does_not_fit_its_checksum_is_damaged_without_spark(job):
    """Hadoop writes CRC-32 of chunks beside each file of a checkpoint."""
    job.begin()
    job.make_table()
    offsets = job.checkpoint / "offsets" / "0"
    content = offsets.read_bytes()
    sums = b"".join(
        zlib.crc32(content[at : at + 64]).to_bytes(4, "big") for at in range(0, len(content), 64)
    )
    (offsets.parent / ".0.crc").write_bytes(b"crc\0" + (64).to_bytes(4, "big") + sums)
    whole, _ = job.plan()
    offsets.write_bytes(content.replace(b"20", b"21"))
    status, damaged = job.plan()

    assert (whole, status) == (0, 2)
    assert "offsets/0 is not what its .crc file says" in damaged["verdict"]["reason"]


def test_a_delta_table_in_an_object_store_is_said_to_be_not_looked_at(job):
    """Only Spark reaches it; the verdict on the checkpoint stands."""
    job.write(path="s3a://bucket/o")
    job.begin()

    status, plan = job.plan()

    assert (status, plan["verdict"]["kind"]) == (0, "resume")
    assert plan["verdict"]["target"] == "not checked: only Spark reaches s3a://bucket/o"


def test_a_statement_set_is_planned_without_spark(job):
    """As one query, or as a query per INSERT with the reason."""
    job.write(SET.format(name="name"))
    _, one = job.plan()
    job.write(SET.format(name="CAST(RAND() AS STRING)"))
    _, several = job.plan()

    assert [query["sink"] for query in one["queries"]] == ["o, p"]
    assert len(several["queries"]) == 2
    assert "asks for the current time or for chance" in several["reason"]


FUNCTION = "CREATE TEMPORARY FUNCTION tag AS 'functions.tag' LANGUAGE PYTHON;\n"


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (
            COPY,
            ["--set", "execution.checkpointing.dir=s3a://key:hidden@b/c"],
            "only Spark reads the checkpoints in s3a://",
        ),
        (
            FUNCTION + SET.format(name="tag(name)"),
            [],
            "only Spark knows whether tag is deterministic",
        ),
    ],
)
def test_what_only_spark_knows_is_said_before_it_starts(job, monkeypatch, text, options, words):
    """Checkpoints in an object store; functions of Python in a set, whose modules need a session."""
    asked = []
    monkeypatch.setattr(cli_script, "run_scripts", lambda options: asked.append(options) or 0)
    job.write(text)

    result = job.runner.invoke(app, ["plan", "job.sql", *options])

    assert (result.exit_code, asked[0].dry_run) == (0, True)
    assert words in result.stderr
    assert "hidden" not in result.stderr


def test_a_checkpoint_of_another_query_is_incompatible(job):
    """Before anything starts."""
    job.begin()
    job.make_table()
    file = job.project / "job.sql"
    keyed = file.read_text().replace("o (id BIGINT,", "o (id BIGINT PRIMARY KEY NOT ENFORCED,")
    file.write_text(keyed.replace(COPY, "INSERT INTO o SELECT id, MAX(name) FROM src GROUP BY id;"))

    status, plan = job.plan()

    assert (status, plan["verdict"]["kind"]) == (2, "incompatible")
    assert "no longer fits" in plan["verdict"]["reason"]


def test_a_checkpoint_that_left_ties_open_resumes_without_spark(job):
    """As an earlier version wrote it: its state has no order of arrival."""
    file = job.project / "job.sql"
    keyed = file.read_text().replace("o (id BIGINT,", "o (id BIGINT PRIMARY KEY NOT ENFORCED,")
    first = (
        "INSERT INTO o SELECT id, name FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY name) AS n "
        "FROM src) WHERE n = 1;"
    )
    file.write_text(keyed.replace(COPY, first))
    job.begin(earlier=True)
    job.make_table()
    shape = job.checkpoint / "penstock-query.json"
    arrival = ", __arrived.batch, __arrived.input, __arrived.split, __arrived.position"
    assert arrival in shape.read_text()
    shape.write_text(shape.read_text().replace(arrival, ""))

    status, plan = job.plan()

    assert (status, plan["verdict"]["kind"]) == (0, "resume")


GROUPED = "INSERT INTO o SELECT id, MAX(name) AS name FROM (SELECT DISTINCT id, name FROM src) GROUP BY id;"


@pytest.fixture
def grouped(job):
    """A project whose query keeps the state of stages."""
    file = job.project / "job.sql"
    keyed = file.read_text().replace("o (id BIGINT,", "o (id BIGINT PRIMARY KEY NOT ENFORCED,")
    file.write_text(keyed.replace(COPY, GROUPED))
    job.begin()
    job.make_table()
    return job


def runners(plan):
    """What is said to run stages, and what to do instead."""
    lines = (line.strip(" -") for line in plan["operators"])
    return {line for line in lines if line.startswith(("run by", "instead"))}


def test_a_checkpoint_that_spark_began_is_said_to_be_run_by_it(grouped):
    """A start from scratch is not; nor is one whose checkpoint has no state yet."""
    keyed = {"run by a keyed operator"}
    assert runners(grouped.plan()[1]) == keyed
    (grouped.checkpoint / "maintained" / "group_1-distinct_0").mkdir(parents=True)
    status, plan = grouped.plan()

    assert (status, plan["verdict"]["kind"]) == (0, "resume")
    assert runners(plan) == {
        "run by Spark, several jobs a batch, as its checkpoint began so",
        "instead: `--from-scratch` begins with keyed operators",
    }
    assert runners(grouped.plan("--from-scratch")[1]) == keyed


def test_the_buckets_of_a_checkpoint_are_told(grouped):
    """A manifest that cannot be read tells none, and is no reason to plan nothing."""
    folder = grouped.checkpoint / "keyed" / "manifests"
    folder.mkdir(parents=True)
    manifest = StateManifest(state_id="s", buckets=12, batch_id=0)
    (folder / "0.json").write_text(manifest.to_text())
    known = grouped.plan()[1]
    (folder / "0.json").write_text("{")
    damaged = grouped.plan()[1]

    assert known["buckets"] == 12
    assert "buckets" not in damaged
    assert runners(known) == runners(damaged) == {"run by a keyed operator"}


def test_operators_are_those_of_the_form_that_the_checkpoint_has(job):
    """An earlier version had stages for a join of columns that keyed operators cannot store."""
    tables = (
        "CREATE TABLE m (id BIGINT, v MAP<STRING, STRING>) "
        "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
    )
    file = job.project / "job.sql"
    text = file.read_text().replace(
        "o (id BIGINT, name STRING)", "o (id BIGINT, v MAP<STRING, STRING>)"
    )
    joined = "INSERT INTO o SELECT a.id, a.v FROM m AS a JOIN src AS b ON a.id = b.id;"
    file.write_text(tables + text.replace(COPY, joined))
    _, new = job.plan()
    job.begin(earlier=True)
    _, begun = job.plan()

    assert "[spark]" in new["operators"][0]
    assert "[stage rows_" in begun["operators"][0]
