"""`penstock serve` and `penstock serve users`, as far as they need no Spark: what is refused before it starts."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from penstock.sql.cli.commands.app import app
from penstock.sql.serve.password_file import is_right, read_users
from tests.sql.cli.command_runner import CommandRunner

Run = Callable[..., Result]


@pytest.fixture
def penstock(project: Path) -> Run:
    """Runs a command in an empty folder, with `stdin`; both streams apart."""
    runner = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})

    def run(*arguments: str, stdin: str | None = None) -> Result:
        return runner.invoke(app, ["serve", *arguments], input=stdin)

    return run


def test_users_are_added_listed_and_removed(penstock: Run, project: Path) -> None:
    """The password is the first line of stdin where that is no terminal."""
    added = penstock("users", "add", "bob", "--file", "users", stdin="correct horse\nnot this\n")
    penstock("users", "add", "alice", "--file", "users", stdin="battery staple\r\n")
    listed = penstock("users", "ls", "--file", "users")
    right = is_right(read_users(project / "users"), "alice", "battery staple")
    removed = penstock("users", "remove", "bob", "--file", "users")
    again = penstock("users", "remove", "bob", "--file", "users")

    assert (added.exit_code, removed.exit_code, again.exit_code) == (0, 0, 2)
    assert listed.stdout == "alice\nbob\n"
    assert right
    assert "horse" not in added.output
    assert "has no user 'bob'" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "could read every table"),
        (["--host", "0.0.0.0", "--users", "users"], "in clear text"),
        (["--users", "users", "--ldap", "ldaps://d"], "exclude each other"),
        (["--tls-key", "key.pem"], "go together"),
        (["--conf", "spark.sql.hive.thriftServer.singleSession=true"], "would not be kept"),
        (["--tls-keystore", "keys.p12"], "PENSTOCK_TLS_KEYSTORE_PASSWORD"),
        (["--sql", "missing.sql"], "missing.sql"),
        (["--port", "0", "--users", "missing"], "cannot be read"),
        (["--port", "0", "--tls-certificate", "a", "--tls-key", "b"], "a cannot be read"),
    ],
)
def test_what_cannot_be_served_is_refused_before_spark_starts(
    penstock: Run, arguments: list[str], message: str
) -> None:
    """Exit status 2, within a second."""
    refused = penstock(*arguments)

    assert refused.exit_code == 2, refused.output
    assert message in refused.stderr
    assert "starting Spark" not in refused.stderr


def test_a_port_that_is_taken_and_a_wrong_file_are_refused_before_spark_starts(
    penstock: Run, project: Path
) -> None:
    """The file with its place, as by `penstock validate`."""
    (project / "wrong.sql").write_text("CREATE VIEW v AS SELECT * FROM nowhere;", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = penstock("--port", str(other.getsockname()[1]))
    wrong = penstock("--port", "0", "--sql", "wrong.sql")

    assert (taken.exit_code, wrong.exit_code) == (2, 2)
    assert "cannot listen on 127.0.0.1" in taken.stderr
    assert "wrong.sql:1:32" in wrong.stderr


@pytest.mark.slow
def test_help_loads_neither_spark_nor_cryptography() -> None:
    """`penstock --help` is to be there at once."""
    check = (
        "import sys; from penstock.sql.cli.commands.app import app\n"
        "try: app(['serve', '--help'])\n"
        "except SystemExit: print([m for m in ('pyspark', 'cryptography', 'py4j') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)

    assert done.stdout.endswith("[]\n")
