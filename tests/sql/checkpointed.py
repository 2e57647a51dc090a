"""A project whose SQL files are named, and started as far as checkpoints hold it: no engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.sql.check.checkpoint_assignment import name_scripts_here
from penstock.sql.check.script_check import CheckedScript, check_scripts
from penstock.sql.checkpoint.identity import QueryLocation
from penstock.sql.execution.context import SessionContext
from penstock.sql.plan.query_location import insert_fingerprint
from penstock.sql.script.files import ScriptFile
from tests.sql.sql_objects import new_namespace

TABLES = """
CREATE TABLE src (a BIGINT, b STRING) WITH ('connector' = 'kafka', 'topic' = 't',
  'properties.bootstrap.servers' = 'b:1', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE o (a BIGINT, b STRING) WITH ('connector' = 'delta', 'path' = 'o');
CREATE TABLE p (a BIGINT, b STRING) WITH ('connector' = 'delta', 'path' = 'p');
"""
LOW = "INSERT INTO o SELECT a, b FROM src WHERE a < 10;"
HIGH = "INSERT INTO o SELECT a, b FROM src WHERE a >= 10;"
MINE = "INSERT INTO o SELECT a, 'mine' FROM src;"
VALUES = "INSERT INTO o VALUES (1, 'x');"


@dataclass
class Job:
    """A project with SQL files that are named, and started as far as checkpoints hold it."""

    project: Path
    settings: dict[str, str]

    def named(self, *texts: str, file: str = "job.sql", **changes: bool) -> list[QueryLocation]:
        """The places of the INSERTs of a file, in its order."""
        path = self.project / file
        path.write_text(TABLES + "\n".join(texts), encoding="utf-8")
        scripts = self.scripts(ScriptFile(name=str(path), text=path.read_text(), path=path))
        named = name_scripts_here(scripts, self.project, **changes)
        statements = [one for script in named for one in script.statements]
        return [location for one in statements if one.placed for location in one.placed.locations]

    def scripts(self, *files: ScriptFile) -> tuple[CheckedScript, ...]:
        return check_scripts(
            files,
            SessionContext(
                namespace=new_namespace(),
                project=self.project,
                settings=self.settings,
            ),
            variables={},
            env={},
        )

    def run(self, *texts: str, file: str = "job.sql") -> list[str]:
        """Name the INSERTs, and write down what a start of them does; gives names of queries."""
        locations = self.named(*texts, file=file)
        for location, text in zip(locations, texts, strict=True):
            if text != VALUES:
                self.start(location, text)
        return [location.identity.query for location in locations]

    def start(self, location: QueryLocation, text: str, *, old: bool = False) -> None:
        (script,) = self.scripts(ScriptFile(name="x.sql", text=TABLES + text))
        (insert,) = script.statements[-1].inserts
        folder = Path(location.checkpoint)
        (folder / "penstock-identity").mkdir(parents=True, exist_ok=True)
        (folder / "penstock-query.json").write_text(insert_fingerprint(insert).to_text())
        if not old:
            entry = len(list((folder / "penstock-identity").iterdir()))
            entries = folder / "penstock-identity" / f"{entry}.json"
            entries.write_text(location.identity.to_text())

    def old(self, pipeline: str, sink: str, text: str) -> None:
        """A checkpoint of an earlier version, which holds neither name nor statement."""
        (location,) = self.named(LOW, file="any.sql")
        folder = self.project / ".penstock" / "checkpoints" / pipeline / sink
        (self.project / "any.sql").unlink()
        other = QueryLocation(
            checkpoint=str(folder), canonical=str(folder), identity=location.identity
        )
        self.start(other, text, old=True)
        (folder / "penstock-identity").rmdir()
