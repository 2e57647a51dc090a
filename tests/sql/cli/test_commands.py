"""The command line as a person meets it: help, usage errors, exit statuses, what goes to which stream."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from penstock.catalog.errors import BadRecordError, InputErrors, SqlSyntaxError, UnknownObjectError
from penstock.sql.cli.commands.app import app
from penstock.sql.cli.output.report import OutputFormat, reporting
from tests.sql.cli.command_runner import CommandRunner, built

COMMANDS = (
    ("init",),
    ("test",),
    ("peek",),
    ("tail",),
    ("run",),
    ("plan",),
    ("validate",),
    ("explain",),
    ("render",),
    ("format",),
    ("shell",),
    ("errors",),
    ("kafka", "start"),
    ("kafka", "stop"),
    ("kafka", "topics", "ls"),
    ("kafka", "topics", "create"),
    ("kafka", "transactions", "ls"),
    ("kafka", "transactions", "abort"),
    ("kafka", "transactions", "repair"),
    ("catalog", "ls"),
    ("catalog", "show"),
    ("catalog", "log"),
    ("checkpoint", "ls"),
    ("checkpoint", "assign"),
    ("dlq", "ls"),
    ("dlq", "show"),
    ("dlq", "replay"),
    ("serve",),
    ("serve", "users", "add"),
    ("serve", "users", "remove"),
    ("serve", "users", "ls"),
    ("jobs",),
    ("ui",),
    ("doctor",),
    ("prepare",),
    ("version",),
)


@pytest.fixture
def penstock(tmp_path, monkeypatch):
    """Runs a command in an empty folder; both streams apart."""
    monkeypatch.chdir(tmp_path)
    runner = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments: runner.invoke(app, [str(argument) for argument in arguments])


def options_of(*names):
    """The options of a command, as typer holds them."""
    command = built(app)
    for name in names:
        command = command.commands[name]
    return [p for p in command.params if p.param_type_name == "option" and p.name != "help"]


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_every_option_has_an_example_and_a_variable(names):
    """`--help` answers what to type; each option can come from the environment."""
    for option in options_of(*names):
        assert "Example: `" in option.help, option.name
        assert option.envvar.startswith("PENSTOCK_"), option.name


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(penstock, names):
    """Help needs neither Spark nor a catalog, and shows a whole command line."""
    result = penstock(*names, "--help")

    assert result.exit_code == 0
    assert f"Example: penstock {' '.join(names)}" in re.sub(r"\s+", " ", result.stdout)


def test_the_statuses_are_told(penstock):
    """The root's help says what an exit status means."""
    assert "130 interrupted" in penstock("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rnu",), "Did you mean 'run'"),
        (("run",), "Missing argument"),
        (("run", "a.sql", "--formt", "json"), "--format"),
        (("run", "a.sql", "--format", "xml"), "'xml' is not one of"),
        (("run", "a.sql", "--var", "topic"), "'topic' is not K=V"),
        (("run", "a.sql", "--set", "=x"), "'=x' is not K=V"),
        (("kafka", "start", "--port", "70000"), "65535"),
    ],
)
def test_wrong_usage_is_status_2_and_says_what_would_be_right(penstock, arguments, words):
    """Nothing goes to stdout."""
    result = penstock(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert words in re.sub(r"[\s│]+", " ", result.stderr)


def test_a_file_that_is_not_there_is_status_2(penstock):
    """The message names it."""
    result = penstock("run", "nowhere.sql")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "nowhere.sql cannot be read: No such file or directory" in result.stderr


def test_a_wrong_project_file_is_shown_with_its_line(penstock, tmp_path):
    """The caret stands under the key."""
    (tmp_path / "penstock.toml").write_text("[spark]\nmastr = 'local'\n", encoding="utf-8")

    result = penstock("run", "a.sql")

    assert result.exit_code == 2
    assert "penstock.toml:2:1" in result.stderr
    assert "^^^^^" in result.stderr
    assert "did you mean 'master'?" in result.stderr


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("v.yaml", "a: 1", "neither TOML nor JSON"),
        ("v.json", "[1]", "must hold names and values"),
        ("v.json", "{", "v.json"),
        ("v.toml", "a = ", "v.toml"),
    ],
)
def test_a_wrong_file_of_variables_is_status_2(penstock, tmp_path, name, text, words):
    """Both kinds are read; others are refused by name."""
    (tmp_path / name).write_text(text, encoding="utf-8")

    result = penstock("run", "a.sql", "--vars-file", name)

    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize("asked", ["version", "--version"])
def test_version_names_what_is_installed(penstock, asked):
    """One line on stdout; the option is what most programs have."""
    result = penstock(asked)

    assert re.fullmatch(
        r"penstock \S+ \(python \S+, pyspark \S+, delta-spark \S+\)\n", result.stdout
    )


def test_stopping_no_broker_is_no_error(penstock, tmp_path):
    """It says that none runs."""
    result = penstock("kafka", "stop", "--data-dir", tmp_path / "kafka")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "no broker runs on" in result.stderr


TABLES = """
CREATE TABLE orders (id BIGINT, item ROW<sku STRING, n INT>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'nowhere:1',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE VIEW skus AS SELECT item.sku, id + 1 AS next FROM orders;
EXPLAIN SELECT * FROM skus;
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "loads"),
    [
        (("version",), []),
        (("catalog", "ls"), ["sqlalchemy"]),
        (("run", "--help"), []),
        (("validate", "tables.sql"), []),
    ],
)
def test_quick_commands_load_neither_spark_nor_a_client(tmp_path, arguments, loads):
    """They answer in well under a second because they import little; of a catalog's database what they read."""
    (tmp_path / "tables.sql").write_text(TABLES, encoding="utf-8")
    code = (
        "import sys\nfrom penstock.sql.cli.commands.app import main\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'pyspark', 'pyarrow', 'pandas', 'duckdb', 'confluent_kafka', 'sqlalchemy'}\n"
        "    sys.stderr.write(f'loaded {sorted(heavy & set(sys.modules))}')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0
    assert run.stderr.endswith(f"loaded {loads}")


def ending(error, output=OutputFormat.TABLE):
    """Status and streams of a command that raises."""
    small = typer.Typer(pretty_exceptions_enable=False)

    @small.command()
    def command(context: typer.Context) -> None:
        with reporting(context, output=output):
            raise error

    return CommandRunner().invoke(small, [])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownObjectError("there is no table t"), 2),
        (BadRecordError("offset 7 is no JSON"), 1),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("oops"), 1),
    ],
)
def test_each_kind_of_error_has_its_status(error, status):
    """Input, failure, interruption; a fault of ours is a failure, told in a line."""
    result = ending(error)

    assert (result.exit_code, result.stdout) == (status, "")
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 2


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OSError(errno.EROFS, "Read-only file system", ".penstock"),
            "folder that you may write to",
        ),
        (OSError(errno.ENOSPC, "No space left on device", "out"), "the disk is full"),
        (PermissionError(errno.EACCES, "Permission denied", "x.sql"), "change its permissions"),
    ],
    ids=["read-only", "full", "denied"],
)
def test_what_the_machine_refuses_is_no_fault_of_penstock(error, words):
    """The file and what to do; the status is that of a failure."""
    result = ending(error)

    assert result.exit_code == 1
    assert str(error.filename) in result.stderr
    assert words in result.stderr
    assert "fault" not in result.stderr


@pytest.mark.parametrize(("verbose", "shown"), [(False, False), (True, True)])
def test_an_interrupted_call_of_spark_has_no_stack(verbose, shown):
    """Py4j logs it by the root logger; the command says `interrupted`, and `--verbose` shows where."""
    small = typer.Typer(pretty_exceptions_enable=False)

    @small.command()
    def command(context: typer.Context) -> None:
        with reporting(context, verbose=verbose):
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                record = logging.LogRecord(
                    "root", logging.ERROR, "py4j/java_gateway.py", 1, "sending", (), sys.exc_info()
                )
                logging.getLogger().handle(record)
                logging.getLogger("app").warning("another message")
                raise

    result = CommandRunner().invoke(small, [])

    assert ("sending" in result.stderr) is shown
    assert "another message" in result.stderr
    assert "interrupted" in result.stderr


def test_init_shows_a_command_that_a_shell_takes(penstock):
    """A folder's name may have spaces and quotes."""
    result = penstock("init", "my shop's")

    assert """cd 'my shop'"'"'s'""" in result.stdout


def test_a_file_that_cannot_be_formatted_is_named(penstock, tmp_path, monkeypatch):
    """On a read-only file system even the removal of the new file fails, which is not there."""
    (tmp_path / "a.sql").write_text("select 1;", encoding="utf-8")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    result = penstock("format", "a.sql")

    assert result.exit_code == 2
    assert "a.sql cannot be written: Read-only file system" in result.stderr


def test_errors_are_json_too_where_json_was_asked_for():
    """One document with every error, and the text on stderr as always."""
    errors = InputErrors(
        [SqlSyntaxError("unexpected ','", hint="remove it"), SqlSyntaxError("no end")]
    )

    result = ending(errors, OutputFormat.JSON)

    document = json.loads(result.stdout)
    assert document["statements"] == []
    assert [error["message"] for error in document["errors"]] == ["unexpected ','", "no end"]
    assert "unexpected ','" in result.stderr
