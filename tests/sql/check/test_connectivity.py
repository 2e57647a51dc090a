"""What is looked at before Spark is started: that what the INSERTs of files read exists."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.catalog.errors import (
    BrokerUnavailableError,
    ConfigError,
    InputErrors,
    PenstockError,
    UnknownObjectError,
)
from penstock.connector.contract import SourceKind
from penstock.sql.check import connectivity
from penstock.sql.check.connectivity import TRUSTED_VARIABLE, check_sources_exist, check_trusted
from penstock.sql.check.script_check import CheckedScript
from penstock.sql.script.files import ScriptFile
from tests.sql.checkpointed import HIGH, LOW, TABLES, Job

BACK = """
CREATE TABLE back (a BIGINT, b STRING) WITH ('connector' = 'kafka', 'topic' = 'x',
  'properties.bootstrap.servers' = 'b:1', 'format' = 'json');
INSERT INTO back SELECT a, b FROM src WHERE a > 5;
"""


def scripts(folder: Path, text: str) -> tuple[CheckedScript, ...]:
    """Check a file."""
    job = Job(project=folder, settings={})
    return tuple(job.scripts(ScriptFile(name="x.sql", text=TABLES + text)))


class Server:
    """A server that answers each list of splits with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: PenstockError) -> None:
        self.asked = self.closed = 0
        self._error = error
        source = SimpleNamespace(kind=SourceKind.SPLITS, open_planner=lambda _: self)
        connector = SimpleNamespace(source=lambda _: source, folder=lambda _: None)
        monkeypatch.setattr(connectivity, "connector_of", lambda *_, **__: connector)

    def list_splits(self) -> Any:
        self.asked += 1
        raise self._error

    def close(self) -> None:
        self.closed += 1


def context(folder: Path) -> Any:
    """A session without secrets."""
    return SimpleNamespace(namespace=SimpleNamespace(secrets=None), project=folder)


def test_what_is_missing_is_told_once_at_the_insert_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two INSERTs read one table."""
    checked = scripts(tmp_path, LOW + HIGH)
    server = Server(monkeypatch, UnknownObjectError("Kafka at b:1 has no topic 't'"))

    with pytest.raises(InputErrors) as caught:
        check_sources_exist(checked, context(tmp_path))

    (error,) = caught.value.errors
    assert error.message == "Kafka at b:1 has no topic 't'"
    assert error.span == checked[0].statements[3].statement.span
    assert (server.asked, server.closed) == (1, 1)


def test_a_server_that_does_not_answer_is_left_to_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for that; asking for each table would take as long as there are tables."""
    checked = scripts(tmp_path, LOW + HIGH)
    server = Server(monkeypatch, BrokerUnavailableError("Kafka at b:1 does not answer"))

    check_sources_exist(checked, context(tmp_path))

    assert (server.asked, server.closed) == (1, 1)


def test_what_an_insert_of_the_files_may_make_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker makes a topic when it is written."""
    checked = scripts(tmp_path, LOW + BACK)
    server = Server(monkeypatch, UnknownObjectError("Kafka at b:1 has no topic 't'"))

    check_sources_exist(checked, context(tmp_path))

    assert server.asked == 0


@pytest.mark.parametrize("secret", ["password", "sslpassword"])
def test_a_catalog_that_is_not_trusted_is_named_without_a_password_of_its_query(
    monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    """As libpq takes them; whoever trusts the rest of the URL need not repeat it."""
    url = f"postgresql://me@db:1/shop?sslmode=require&{secret}=p4ssword"
    monkeypatch.setenv(TRUSTED_VARIABLE, "")
    with pytest.raises(ConfigError) as refused:
        check_trusted(url)
    assert "p4ssword" not in f"{refused.value} {refused.value.hint}"
    assert "sslmode=require" in str(refused.value)

    monkeypatch.setenv(TRUSTED_VARIABLE, "postgresql://me@db:1/shop?sslmode=require")
    check_trusted(url)
