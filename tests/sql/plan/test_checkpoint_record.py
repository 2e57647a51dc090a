"""What a start writes down in its checkpoint, and what it refuses: the lease is held, but was not when it was chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.sql.plan import checkpoint
from penstock.sql.plan.checkpoint_identity import read_identity
from penstock.sql.plan.local_files import LocalFiles
from penstock.sql.plan.place import QueryPlace
from penstock.sql.plan.shape import QueryShape
from tests.sql.checkpointed import HIGH, LOW, MINE, Job

SHAPE = QueryShape(sources=("src",), sink="o", state=())


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

    monkeypatch.setattr(checkpoint, "_HadoopFiles", files)
    monkeypatch.setattr(checkpoint, "write_text", write)
    monkeypatch.setattr(checkpoint, "read_text", read)
    return Job(project=tmp_path, settings={"pipeline.name": "all"})


def record(place: QueryPlace) -> None:
    checkpoint.record_query(cast("Any", None), place, SHAPE)


def test_a_checkpoint_that_another_insert_took_meanwhile_is_refused(job: Job) -> None:
    """Both were placed before either began; the second would go on from the offsets of the first."""
    (first,) = job.named(LOW, file="first.sql")
    (second,) = job.named(HIGH, file="second.sql")
    assert first.location == second.location

    record(first)
    with pytest.raises(StateMismatchError, match="meanwhile") as caught:
        record(second)

    assert caught.value.hint == "run it again"
    assert read_identity(LocalFiles(location=first.location)) == first.identity
    (again,) = job.named(HIGH, file="second.sql")
    assert again.identity.query == "o-2"
    record(again)


def test_an_insert_that_was_changed_goes_on_and_starts_again(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    """That is told, once. A restart finds its own text; one that was changed by yet another run in between is refused."""
    (place,) = job.named(LOW)
    record(place)
    (changed,) = job.named(MINE)
    (other,) = job.named(HIGH)

    assert not caplog.records
    record(changed)
    record(changed)

    (told,) = caplog.messages
    assert told.startswith("all/o: the INSERT was changed and goes on from its checkpoint")
    assert "a < 10" in told
    assert read_identity(LocalFiles(location=place.location)) == changed.identity
    with pytest.raises(StateMismatchError, match="meanwhile"):
        record(other)
