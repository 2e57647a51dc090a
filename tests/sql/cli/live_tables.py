"""Catalogs for the tests of `peek` and `tail`, and the commands in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.cli.commands.app import app
from tests.sql.cli.command_runner import CommandRunner
from tests.sql.sql_objects import run

COLUMNS = (
    "id BIGINT, name STRING, ts TIMESTAMP(3), part INT METADATA FROM 'partition' VIRTUAL, "
    "twice AS id * 2, up AS UPPER(name), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
)

Command = Callable[..., Result]


def define(folder: Path, sql: str) -> None:
    """Put tables into the catalog of a project folder."""
    (folder / ".penstock").mkdir()
    run(sql, Namespace(SqlCatalog(f"sqlite:///{folder}/.penstock/catalog.db")))


def kafka_table(name: str, bootstrap: str, topic: str, **options: str) -> str:
    """Give the DDL of a Kafka table of COLUMNS; options with underscores for dots."""
    more = {key.replace("_", "."): value for key, value in options.items()}
    settings = {
        "connector": "kafka",
        "properties.bootstrap.servers": bootstrap,
        "topic": topic,
        "format": "json",
        **more,
    }
    written = ", ".join(f"'{key}' = '{value}'" for key, value in settings.items())
    return f"CREATE TABLE {name} ({COLUMNS}) WITH ({written});"


def commands() -> Command:
    """Run commands in this process, both streams apart."""
    runner = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments: runner.invoke(app, [str(argument) for argument in arguments])


def order(number: int, at: str = "2026-01-01 00:00:00") -> dict[str, Any]:
    """Make a record."""
    return {"id": number, "name": f"n{number}", "ts": at}
