"""A new project: what its comments say is true, nothing is ever overwritten, and it runs as it is told to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.catalog.errors import ConfigError
from penstock.sql.check.script_check import check_scripts
from penstock.sql.cli.commands.app import app
from penstock.sql.cli.commands.init import FILES, NEXT, project_name, write_project
from penstock.sql.execution.context import SessionContext
from penstock.sql.script.files import read_script
from penstock.sql.script.project import Project, read_project
from penstock.sql.settings import RESTART_SETTINGS, SETTINGS, check_settings
from penstock.sql.spark_process.spark_session import DEFAULT_MASTER
from tests.sql.cli.command_runner import CommandRunner
from tests.sql.sql_objects import new_namespace

ROOT = Path(__file__).resolve().parents[4]
RUNNER = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def uncommented(text: str) -> str:
    """A settings file with its examples and defaults in force."""
    return re.sub(r"(?m)^# (?=[\w\"\[].*(=|\]))", "", text)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A new project called `shop`."""
    folder = tmp_path / "shop"
    write_project(folder, "shop")
    return folder


def test_a_new_project_says_what_to_type_next(tmp_path: Path, monkeypatch) -> None:
    """And has its name in it."""
    monkeypatch.chdir(tmp_path)
    result = RUNNER.invoke(app, ["init", "new", "--name", "shop"])
    lines = result.stdout.splitlines()

    assert result.exit_code == 0, result.stderr
    assert [line.strip() for line in lines[-4:]] == ["cd new", *NEXT]
    assert read_project(tmp_path / "new" / "penstock.toml").settings == {"pipeline.name": "shop"}
    assert (tmp_path / "new" / "README.md").read_text().startswith("# shop\n")
    assert len((tmp_path / "new" / "README.md").read_text().splitlines()) == 5


def test_nothing_is_written_where_one_file_is_there(tmp_path: Path, monkeypatch) -> None:
    """All that are there are named."""
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text("mine")
    Path("sql").mkdir()
    Path("sql/pipeline.sql").write_text("mine too")
    result = RUNNER.invoke(app, ["init"])

    assert result.exit_code == 2
    assert "README.md" in result.stderr
    assert "sql/pipeline.sql" in result.stderr
    assert "penstock.toml" not in result.stderr
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["README.md", "pipeline.sql", "sql"]
    assert Path("README.md").read_text() == "mine"


def test_a_folder_gives_its_name_to_the_project(tmp_path: Path) -> None:
    """Made a name of a pipeline; one that is asked for has to be one."""
    assert project_name(tmp_path / "My shop!", None) == "My-shop"
    with pytest.raises(ConfigError, match="cannot be the name"):
        project_name(tmp_path, "a b")


def test_the_commented_defaults_are_the_defaults(shop: Path) -> None:
    """With every comment in force, the project is as with none of them, but for what has no default."""
    file = shop / "penstock.toml"
    plain = read_project(file)
    file.write_text(uncommented(file.read_text()).replace('target = "dev"', 'target = "prod"'))
    full = read_project(file)
    defaults = {option.key: option.default for option in (*SETTINGS, *RESTART_SETTINGS)}
    check_settings(full.settings)

    assert full.data_directory == plain.data_directory
    assert full.folders.macro_folder == plain.folders.macro_folder
    assert full.default_catalog_url == plain.default_catalog_url
    assert full.master == DEFAULT_MASTER
    for key, value in full.settings.items():
        if defaults[key] is not None:
            assert str(defaults[key]) == value, key
    assert full.targets == ("prod",)


def test_the_settings_file_knows_every_key(shop: Path) -> None:
    """Each field of a project is set once all comments are in force."""
    file = shop / "penstock.toml"
    file.write_text(uncommented(file.read_text()).replace('target = "dev"', 'target = "prod"'))
    full = read_project(file)
    unset = {
        name
        for name in Project.__dataclass_fields__
        if getattr(full, name) == getattr(replace(Project(root=shop)), name)
    }
    settings = {option.key for option in SETTINGS}

    found = {"root", "dotenv", "sharing", "is_main"}  # what no line says by itself
    assert unset <= found
    assert settings <= full.settings.keys()


def test_the_sql_of_a_new_project_is_right(shop: Path) -> None:
    """Checked as a run would, without a JVM; the hint of another table too."""
    project = read_project(shop / "penstock.toml")
    path = shop / "sql" / "pipeline.sql"
    text = path.read_text()
    found = re.search(r"--   (WITH \(.*?\n--  +.*?\))", text)
    assert found is not None
    topic = found[1].replace("--", "")
    with_topic = text[: text.index(") WITH (\n  'connector' = 'datagen'")] + ") " + topic
    with_topic += text[text.index(";\n\nCREATE TABLE IF NOT EXISTS revenue") :]
    for sql in (text, with_topic):
        path.write_text(sql)
        check_scripts(
            (read_script(path),),
            SessionContext(
                namespace=new_namespace(), project=shop, settings=dict(project.settings)
            ),
            variables=project.variables,
            env={},
        )

    assert len(FILES) == len([p for p in shop.rglob("*") if p.is_file()])


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.spark
def test_a_new_project_runs_as_it_says(tmp_path: Path) -> None:
    """The three commands, as a person would type them; the report has all orders."""
    outputs = []
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    write_project(tmp_path, "shop")
    for command in NEXT:
        program = "import sys; from penstock.sql.cli.commands.app import main; sys.argv[0] = 'penstock'; main()"
        run = subprocess.run(
            [sys.executable, "-c", program, *command.split()[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, f"{command}\n{run.stdout}\n{run.stderr}"
        outputs.append(run.stdout + run.stderr)

    assert "2 passed" in outputs[0]
    counts = [int(n) for n in re.findall(r"│[^│]+│\s*(\d+)\s*│[^│]+│", outputs[2])]
    assert sum(counts) == 10_000, outputs[2]
