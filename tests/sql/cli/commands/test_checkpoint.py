"""`penstock checkpoint`: what is not clear to a run is said by a command, and clear to the next one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from penstock.catalog.errors import StateMismatchError
from penstock.sql.cli.commands.app import app
from tests.sql.checkpointed import HIGH, LOW, TABLES, Job
from tests.sql.cli.command_runner import CommandRunner

LOWER, HIGHER = LOW.replace("10", "5"), HIGH.replace("10", "5")


def checkpoint(*arguments: str) -> Result:
    return CommandRunner(env={"COLUMNS": "300"}).invoke(app, ["checkpoint", *arguments])


@pytest.fixture
def job(project: Path) -> Job:
    """Two INSERTs have run, and both were changed since."""
    job = Job(project=project, settings={})
    job.run(LOW, HIGH)
    with pytest.raises(StateMismatchError):
        job.named(LOWER, HIGHER)
    return job


def test_an_insert_goes_on_from_the_checkpoint_that_it_was_assigned(job: Job) -> None:
    """Here each from the other's; what is left needs no command."""
    told = checkpoint("assign", "job.sql", "--line", "6", "--to", "o-2")

    assert told.exit_code == 0, told.output
    assert "job/o-2" in told.stdout
    assert [one.identity.query for one in job.named(LOWER, HIGHER)] == ["o-2", "o"]


def test_an_insert_that_is_new_takes_no_checkpoint(job: Job) -> None:
    """Before it runs, and when it does."""
    assert checkpoint("assign", "job.sql", "--line", "6", "--new").exit_code == 0
    assert checkpoint("assign", "job.sql", "--line", "7", "--to", "o").exit_code == 0

    lower, higher = job.named(LOWER, HIGHER)

    assert (lower.identity.query, higher.identity.query) == ("o-3", "o")


def test_a_checkpoint_of_two_pipelines_is_assigned_to_one(project: Path) -> None:
    """From there on it is known whose it is, and the other starts over."""
    job = Job(project=project, settings={})
    job.old("_", "o", LOW)
    for name in ("日本", "中国"):
        (project / f"{name}.sql").write_text(TABLES + LOW)

    assert checkpoint("assign", "日本.sql", "--line", "6", "--to", "o").exit_code == 0

    (first,), (second,) = job.named(LOW, file="日本.sql"), job.named(LOW, file="中国.sql")
    assert first.checkpoint.endswith("/_/o")
    assert second.checkpoint == second.canonical != first.checkpoint


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--line", "6"), "give --to NAME, or --new"),
        (("--line", "6", "--to", "x"), "there are: o, o-2"),
        (("--line", "1", "--new"), "they begin at: 6, 7"),
    ],
)
def test_what_cannot_be_assigned_says_what_can(
    job: Job, arguments: tuple[str, ...], told: str
) -> None:
    """Nothing is written."""
    refused = checkpoint("assign", "job.sql", *arguments)

    assert refused.exit_code == 2
    assert told in refused.stderr
    with pytest.raises(StateMismatchError):
        job.named(LOWER, HIGHER)


def test_the_checkpoints_of_a_file_are_listed_with_their_statements(job: Job) -> None:
    """For people and for programs."""
    listed = json.loads(checkpoint("ls", "job.sql", "--format", "json").stdout)["checkpoints"]

    assert [(one["pipeline"], one["query"]) for one in listed] == [("job", "o"), ("job", "o-2")]
    assert "< 10" in listed[0]["statement"]
    assert "job/o-2: " in checkpoint("ls", "job.sql").stdout
