"""What a start writes down in its checkpoint, and what it refuses: the lease is held, but was not when it was chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.sql.checkpoint import directory
from penstock.sql.checkpoint.fingerprint import QueryFingerprint
from penstock.sql.checkpoint.identity import QueryLocation, read_identity
from penstock.sql.checkpoint.reader import LocalFiles
from tests.sql.checkpointed import HIGH, LOW, MINE, Job

SHAPE = QueryFingerprint(sources=("src",), sink="o", state=())


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A project whose checkpoints are written without an engine."""

    def files(*, spark: object, location: str) -> LocalFiles:
        assert spark is None
        return LocalFiles(location=location)

    def write(_: object, path: str, text: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)

    def read(_: object, path: str) -> str | None:
        return Path(path).read_text() if Path(path).exists() else None

    monkeypatch.setattr(directory, "_HadoopFiles", files)
    monkeypatch.setattr(directory, "write_text", write)
    monkeypatch.setattr(directory, "read_text", read)
    return Job(project=tmp_path, settings={"pipeline.name": "all"})


def record(location: QueryLocation) -> None:
    directory.record_query(cast("Any", None), location, SHAPE)


def test_a_checkpoint_that_another_insert_took_meanwhile_is_refused(job: Job) -> None:
    """Both were placed before either began; the second would go on from the offsets of the first."""
    (first,) = job.named(LOW, file="first.sql")
    (second,) = job.named(HIGH, file="second.sql")
    assert first.checkpoint == second.checkpoint

    record(first)
    with pytest.raises(StateMismatchError, match="meanwhile") as caught:
        record(second)

    assert caught.value.hint == "run it again"
    assert read_identity(LocalFiles(location=first.checkpoint)) == first.identity
    (again,) = job.named(HIGH, file="second.sql")
    assert again.identity.query == "o-2"
    record(again)


def test_an_insert_that_was_changed_goes_on_and_starts_again(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    """That is told, once. A restart finds its own text; one that was changed by yet another run in between is refused."""
    (location,) = job.named(LOW)
    record(location)
    (changed,) = job.named(MINE)
    (other,) = job.named(HIGH)

    assert not caplog.records
    record(changed)
    record(changed)

    (told,) = caplog.messages
    assert told.startswith("all/o: the INSERT was changed and resumes from its checkpoint")
    assert "a < 10" in told
    assert read_identity(LocalFiles(location=location.checkpoint)) == changed.identity
    with pytest.raises(StateMismatchError, match="meanwhile"):
        record(other)


def of_target(job: Job, target: str) -> QueryLocation:
    """The place of an INSERT of a project with targets; the default one has no name."""
    targeted = Job(project=job.project, settings={**job.settings, "penstock.target": target})
    (location,) = targeted.named(LOW)
    return location


@pytest.mark.parametrize(("first", "second"), [("", "prod"), ("prod", ""), ("prod", "test")])
def test_targets_do_not_share_a_checkpoint(job: Job, first: str, second: str) -> None:
    """Whatever catalogs and leases they have: the second is refused, the first goes on."""
    record(of_target(job, first))
    other = of_target(job, second)

    with pytest.raises(StateMismatchError, match="target") as caught:
        record(other)

    assert "execution.checkpointing.dir" in str(caught.value.hint)
    record(of_target(job, first))
    (location,) = job.named(LOW)
    assert location.checkpoint == other.checkpoint
    assert read_identity(LocalFiles(location=location.checkpoint)) == of_target(job, first).identity


def test_a_checkpoint_from_before_targets_were_told_apart_is_the_default_targets(job: Job) -> None:
    """It goes on, and says so then; a project without targets writes nothing of them."""
    (location,) = job.named(LOW)
    record(location)
    assert location.identity.target is None
    assert '"target"' not in location.identity.to_text()

    with pytest.raises(StateMismatchError, match="is that of the default target"):
        record(of_target(job, "prod"))
    record(of_target(job, ""))

    found = read_identity(LocalFiles(location=location.checkpoint))
    assert found is not None
    assert found.target == ""


def test_a_target_that_began_at_the_same_time_is_refused(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that write one entry at once the file system lets one through; they may hold leases of two catalogs."""
    dev, prod = of_target(job, ""), of_target(job, "prod")
    write = directory.write_text

    def late(spark: Any, path: str, text: str) -> bool:
        if "penstock-identity" in path:
            write(spark, path, dev.identity.to_text())
            return False
        return True

    monkeypatch.setattr(directory, "write_text", late)
    with pytest.raises(StateMismatchError, match="run of 'prod'"):
        record(prod)
