"""Commands over SQL files that start nothing: validate, render, explain, format, errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from penstock.sql.check.connectivity import check_folder
from penstock.sql.cli.commands.app import app
from penstock.sql.statements.statement import CreateTable
from tests.sql.cli.command_runner import CommandRunner
from tests.sql.sql_objects import new_namespace, run

FILE = """
CREATE TABLE src (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE sink (id BIGINT, name STRING) WITH ('connector' = 'delta', 'path' = '{{ var("path") }}');
INSERT INTO sink SELECT id, UPPER(name) FROM src;
"""


@pytest.fixture
def penstock(tmp_path, monkeypatch):
    """Runs a command in a project with a file `jobs.sql`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_TARGET", raising=False)
    (tmp_path / "jobs.sql").write_text(FILE)
    (tmp_path / "in").mkdir()
    (tmp_path / "penstock.toml").write_text(
        "[variables]\npath = 'out'\n[targets.prod.variables]\npath = 'prod'\n"
    )
    runner = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments, **more: runner.invoke(app, [str(a) for a in arguments], **more)


def test_a_right_file_has_nothing_wrong(penstock, tmp_path):
    """One line a file; nothing is written."""
    result = penstock("validate", "jobs.sql")

    assert (result.exit_code, result.stdout) == (0, "jobs.sql: 3 statements, nothing wrong\n")
    assert not (tmp_path / "out").exists()


def test_what_is_wrong_goes_to_stdout_with_status_2(penstock, tmp_path):
    """All of it, in the shape that was asked for."""
    (tmp_path / "bad.sql").write_text("SELECT nope FROM src;\nSELECT 1 FORM x;\n")

    full = penstock("validate", "jobs.sql", "bad.sql")
    concise = penstock("validate", "jobs.sql", "bad.sql", "--output-format", "concise")
    document = json.loads(penstock("validate", "bad.sql", "--output-format", "json").stdout)

    assert (full.exit_code, full.stderr) == (2, "")
    assert "2 errors; nothing was started" in full.stdout
    assert concise.stdout.splitlines() == [
        "bad.sql:1:8: PEN-2001 there is no column 'nope' (there are: id, name)",
        "bad.sql:2:10: PEN-1001 unexpected 'FORM' (did you mean FROM?)",
    ]
    assert [error["code"] for error in document["errors"]] == ["PEN-2001", "PEN-1001"]


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_run_tells_errors_in_the_same_shapes(penstock, tmp_path, command):
    """On stderr, as stdout is for what statements give; before Spark starts."""
    (tmp_path / "bad.sql").write_text("SELECT 1 FORM x;\n")

    result = penstock(command, "bad.sql", "--output-format", "github")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("::error file=bad.sql,line=1,title=PEN-1001,col=10,")


def test_connect_names_each_table_and_what_was_found(penstock, tmp_path):
    """A target that is not there is no fault where rows are written into it first."""
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')

    result = penstock("validate", "jobs.sql", "--level", "connect")

    assert result.exit_code == 0
    assert "src (filesystem, read): 1 file" in result.stdout
    assert re.search(r"sink \(delta, written\): .*/out is not there yet", result.stdout)


def test_a_table_that_is_not_there_is_status_1(penstock, tmp_path):
    """The texts are right, the world is not."""
    log = tmp_path / "out" / "_delta_log"
    log.mkdir(parents=True)
    schema = json.dumps({"fields": [{"name": "id"}, {"name": "name"}]})
    (log / f"{0:020d}.json").write_text(json.dumps({"metaData": {"schemaString": schema}}) + "\n")
    (tmp_path / "gone.sql").write_text(
        "CREATE TABLE d (id BIGINT) WITH ('connector' = 'delta', 'path' = 'gone');\nSELECT id FROM d;"
    )

    there = penstock("validate", "jobs.sql", "--level", "connect")
    result = penstock("validate", "gone.sql", "--level", "connect", "--output-format", "json")

    assert "version 0, columns id, name" in there.stdout
    assert result.exit_code == 1
    (table,) = json.loads(result.stdout)["tables"]
    assert (table["use"], table["reachable"]) == ("read", False)


def test_render_shows_the_text_of_a_target(penstock):
    """With the place of each line where asked for."""
    plain = penstock("render", "jobs.sql", "--target", "prod")
    placed = penstock("render", "jobs.sql", "--origins")

    assert "'path' = 'prod'" in plain.stdout
    assert placed.stdout.splitlines()[2].startswith("jobs.sql:3 ")


def test_render_masks_secrets(penstock, tmp_path):
    """From `.env` too."""
    (tmp_path / ".env").write_text("PASS_WORD=hush-hush-9\n")
    (tmp_path / "s.sql").write_text("SELECT '{{ secret('PASS_WORD') }}'")

    result = penstock("render", "s.sql")

    assert (result.exit_code, result.stdout) == (0, "SELECT '***********'\n")


def test_an_unknown_target_is_told(penstock):
    """Nothing is run against a default instead."""
    result = penstock("validate", "jobs.sql", "--target", "prd")

    assert result.exit_code == 2
    assert "did you mean 'prod'?" in result.stderr


def test_explain_tells_of_each_query(penstock):
    """Also as JSON, with its place."""
    result = penstock("explain", "jobs.sql")
    (plan,) = json.loads(penstock("explain", "jobs.sql", "--format", "json").stdout)["plans"]

    lines = result.stdout.splitlines()
    assert lines[:2] == ["INSERT INTO sink", "write sink (delta), takes [I]"]
    assert any(line.strip().startswith("Scan src (filesystem)") for line in lines)
    assert (plan["file"], plan["line"], plan["version"]) == ("jobs.sql", 4, 1)
    assert plan["plan"]["operator"] == "Project"


def test_format_rewrites_files_or_says_what_would_change(penstock, tmp_path):
    """--check and --diff write nothing, and tell by the exit status."""
    file = tmp_path / "f.sql"
    file.write_text("select  1; -- one\n")

    checked, shown = penstock("format", "f.sql", "--check"), penstock("format", "f.sql", "--diff")

    assert (checked.exit_code, shown.exit_code, file.read_text()) == (1, 1, "select  1; -- one\n")
    assert "+SELECT 1; -- one" in shown.stdout
    assert penstock("format", "f.sql").exit_code == 0
    assert file.read_text() == "SELECT 1; -- one\n"
    assert penstock("format", "f.sql", "--check").exit_code == 0
    assert penstock("format", "-", input="select 2").stdout == "SELECT 2\n"


def test_a_code_is_explained(penstock):
    """By its number too; an unknown one is refused."""
    assert "penstock.toml" in penstock("errors", "4002").stdout + penstock("errors", "1101").stdout
    assert penstock("errors", "PEN-4001").stdout.startswith("PEN-4001 OptionError")
    assert penstock("errors", "9999").exit_code == 2


def test_the_env_file_speaks_for_options(tmp_path):
    """In a process of its own: the file changes the environment."""
    (tmp_path / ".env").write_text("PENSTOCK_OUTPUT_FORMAT=concise\n")
    (tmp_path / "bad.sql").write_text("SELCT 1;")
    code = "from penstock.sql.cli.commands.app import main; main()"

    run = subprocess.run(
        [sys.executable, "-c", code, "validate", "bad.sql"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.stdout.startswith("bad.sql:1:1: PEN-1001")


COUPON = FILE.replace("TABLE", "TABLE IF NOT EXISTS").replace(
    "(id BIGINT, name STRING) WITH ('connector' = 'filesystem'",
    "(id BIGINT, name STRING, coupon STRING) WITH ('connector' = 'filesystem'",
)


@pytest.fixture
def edited(penstock, tmp_path):
    """A project whose catalog has the tables of `jobs.sql`, which was edited since."""
    assert penstock("catalog", "apply", "jobs.sql").exit_code == 0
    (tmp_path / "jobs.sql").write_text(COUPON)


@pytest.mark.usefixtures("edited")
def test_a_definition_that_is_not_used_is_a_warning_in_each_shape(penstock):
    """The file is right all the same; the status is 0."""
    full = penstock("validate", "jobs.sql")
    concise = penstock("validate", "jobs.sql", "--output-format", "concise")
    github = penstock("validate", "jobs.sql", "--output-format", "github")
    document = json.loads(penstock("validate", "jobs.sql", "--output-format", "json").stdout)

    assert full.exit_code == 0
    assert (
        "warning[PEN-2002]: src is in the catalog with another definition since 20" in full.stdout
    )
    assert full.stdout.endswith("jobs.sql: 3 statements, nothing wrong, 1 warning\n")
    assert re.search(r"jobs.sql:2:1: warning PEN-2002 .*\+coupon", concise.stdout)
    assert github.stdout.startswith("::warning file=jobs.sql,line=2,")
    assert [one["code"] for one in document["warnings"]] == ["PEN-2002"]
    assert document["errors"] == []


@pytest.mark.usefixtures("edited")
def test_explain_warns_of_a_definition_that_is_not_used(penstock):
    """On stderr."""
    result = penstock("explain", "jobs.sql")

    assert result.exit_code == 0
    assert "warning[PEN-2002]: src is in the catalog with another definition" in result.stderr


@pytest.mark.usefixtures("edited")
def test_apply_takes_the_definitions_of_a_file(penstock):
    """What differs is told; then nothing differs. A dry run changes nothing."""
    tried = penstock("catalog", "apply", "jobs.sql", "--dry-run")
    applied = penstock("catalog", "apply", "jobs.sql")
    again = penstock("catalog", "apply", "jobs.sql")

    assert tried.stdout == applied.stdout
    assert applied.stdout == "default_catalog.default_database.src: changed: column +coupon\n"
    assert (again.exit_code, again.stdout) == (0, "")
    assert penstock("validate", "jobs.sql").stdout.endswith("nothing wrong\n")
    assert "coupon" in penstock("catalog", "show", "src").stdout


@pytest.mark.usefixtures("edited")
def test_apply_changes_nothing_where_something_is_wrong(penstock, tmp_path):
    """The whole file is checked with its own definitions first."""
    (tmp_path / "jobs.sql").write_text(COUPON + "INSERT INTO sink SELECT nope, coupon FROM src;\n")
    result = penstock("catalog", "apply", "jobs.sql")

    assert result.exit_code == 2
    assert "there is no column 'nope'" in result.stderr
    assert "coupon" not in penstock("catalog", "show", "src").stdout


def test_a_target_does_not_see_the_tables_of_another(penstock, tmp_path):
    """Its file gives it tables of its own, beside those of the default target."""
    penstock("catalog", "apply", "jobs.sql")
    penstock("catalog", "apply", "jobs.sql", "--target", "prod")
    dev = penstock("catalog", "show", "sink").stdout
    prod = penstock("catalog", "show", "sink", env={"PENSTOCK_TARGET": "prod"}).stdout

    assert ("'path' = 'out'" in dev, "'path' = 'prod'" in prod) == (True, True)
    assert (tmp_path / ".penstock/catalog-prod.db").exists()


def test_targets_of_one_catalog_may_not_differ_in_a_table(penstock, tmp_path):
    """One of the two would write the other's folder."""
    project = tmp_path / "penstock.toml"
    project.write_text("[catalog]\nurl = 'sqlite:///all.db'\n[targets.dev]\n" + project.read_text())
    result = penstock("validate", "jobs.sql", "--target", "prod", "--output-format", "concise")

    assert result.exit_code == 2
    assert result.stdout.startswith(
        "jobs.sql:3: PEN-3001 sink is another table for the target 'dev', which has the same catalog; here it has: "
        "option 'path' = 'prod' (not 'out')"
    )


def test_targets_of_one_catalog_may_differ_in_variables_of_the_command_line(penstock, tmp_path):
    """Given to both, they make both the same."""
    project = tmp_path / "penstock.toml"
    project.write_text("[catalog]\nurl = 'sqlite:///all.db'\n[targets.dev]\n" + project.read_text())

    assert penstock("validate", "jobs.sql", "--target", "prod", "--var", "path=x").exit_code == 0


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("afile/s", "afile is a file"),
        ("/proc/s", "/proc is the system's own"),
        ("loose/s", "loose is a link to nothing"),
    ],
)
def test_a_folder_that_cannot_be_made_is_told_before_anything_starts(penstock, tmp_path, path, why):
    """By validate --level connect, and by run before Spark."""
    (tmp_path / "afile").write_text("")
    (tmp_path / "loose").symlink_to(tmp_path / "nowhere")
    looked = penstock("validate", "jobs.sql", "--level", "connect", "--var", f"path={path}")
    started = penstock("run", "jobs.sql", "--var", f"path={path}", "--output-format", "concise")

    assert (looked.exit_code, started.exit_code) == (1, 2)
    assert why in looked.stdout
    assert "PEN-4001 table sink: the folder" in started.stderr
    assert why in started.stderr
    assert "give 'path' a folder that" in started.stderr


def test_a_folder_that_can_be_made_is_no_fault(tmp_path):
    """Below folders that are not there either; a URL of a store is Spark's to reach."""
    (statement,) = run(
        "CREATE TABLE t (id INT) WITH ('connector' = 'delta', 'path' = 'a/b/c')", new_namespace()
    )
    assert isinstance(statement, CreateTable)
    away = replace(statement.table, options=(("connector", "delta"), ("path", "s3a://b/t")))
    check_folder(statement.table, tmp_path)
    check_folder(away, tmp_path)

    assert not (tmp_path / "a").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write_is_told(penstock, tmp_path):
    """Who may not is said."""
    (tmp_path / "shut").mkdir(mode=0o500)
    result = penstock("validate", "jobs.sql", "--level", "connect", "--var", "path=shut/s")

    assert result.exit_code == 1
    assert "this user may not write to" in result.stdout
