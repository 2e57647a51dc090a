"""Bad records of a pipeline: left out or kept, each once with its batch, and too many of them stop it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.catalog.errors import BadRecordError, StateMismatchError
from penstock.connector.dead_letters.publisher import DeadLetterPublisher
from penstock.sql.jobs.job import Job
from penstock.sql.session.session import Session

RECORDS, EVERY = 2_000, 100
"""Lines of a file, and one of how many is bad."""

TABLES = """
    CREATE TABLE incoming (id BIGINT, name STRING)
    WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.max-bytes-per-batch' = '40000b'{options});
    CREATE TABLE kept (id BIGINT) WITH ('connector' = 'delta', 'path' = 'kept');
    INSERT INTO kept SELECT id FROM incoming;
"""
LETTERS = ".penstock/checkpoints/bad/kept/dead-letters"
DEAD_LETTER = ", 'bad-records' = 'dead-letter'"


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session in a project with a file of records, one in a hundred bad."""
    lines = [line(number) for number in range(RECORDS)]
    (project / "in").mkdir()
    (project / "in" / "a #1.json").write_text("\n".join(lines), encoding="utf-8")
    with penstock.connect(spark) as session:
        yield session


def is_bad(number: int) -> bool:
    """Tell which records are bad."""
    return number % EVERY == 7


def line(number: int) -> str:
    """A record; a bad one has a text where a number is due."""
    return f'{{"id": "x{number}"}}' if is_bad(number) else f'{{"id": {number}, "name": "n"}}'


def run(session: Session, options: str) -> Job:
    """Run the pipeline to its end, or on from its checkpoint, with the table as these options make it."""
    for table in ("incoming", "kept"):
        session.sql(f"DROP TABLE IF EXISTS {table}")
    script = Path.cwd() / "bad.sql"
    script.write_text(TABLES.format(options=options), encoding="utf-8")
    (job,) = session.run_file(script, available_now=True)
    job.await_termination(1)
    return job


def delta(session: Session, path: str) -> list[Any]:
    """Rows of a Delta table."""
    return session.spark.read.format("delta").load(str(Path.cwd() / path)).collect()


def assert_accounted(session: Session, job: Job, *, letters: bool) -> None:
    """Every record that was read is a row, or was left out and counted; a letter is one of the latter."""
    good = [number for number in range(RECORDS) if not is_bad(number)]

    assert sorted(row.id for row in delta(session, "kept")) == good
    assert job.progress.bad_records == RECORDS - len(good)
    if letters:
        values = sorted(bytes(row.value).decode() for row in delta(session, LETTERS))
        assert values == sorted(line(number) for number in range(RECORDS) if is_bad(number))


def test_a_bad_record_fails_the_query_unless_the_table_says_otherwise(session: Session) -> None:
    """By default; the batch is done again under the changed option, and nothing is read twice."""
    with pytest.raises(BadRecordError, match=r"field 'id': not a BIGINT"):
        run(session, "")
    job = run(session, ", 'bad-records' = 'skip'")

    assert_accounted(session, job, letters=False)


def test_a_dead_letter_has_the_record_and_all_that_is_known_of_it(session: Session) -> None:
    """Read = rows + dead letters, in several batches; the file's position leads back to the line."""
    job = run(session, DEAD_LETTER)
    letters = delta(session, LETTERS)
    first = min(letters, key=lambda row: row.position)
    content = (Path.cwd() / "in" / "a #1.json").read_bytes()

    assert_accounted(session, job, letters=True)
    assert content[first.position :].splitlines()[0] == bytes(first.value) == line(7).encode()
    assert (first.table, first.pipeline) == (
        "default_catalog.default_database.incoming",
        "bad/kept",
    )
    assert (first.stage, first.error) == ("value", "field 'id': not a BIGINT: \"x7\"")
    assert (first.topic, first.offset, first.key, first.timestamp) == (None, None, None, None)
    assert len({row.batch_id for row in letters}) > 1


def test_a_crash_between_the_rows_and_the_letters_loses_and_doubles_none(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink has the batch and never asks for its rows again: the letters are found where the tasks left them."""
    after_batch = DeadLetterPublisher.after_batch

    def fails(*_: object) -> None:
        raise BadRecordError("the driver dies here")

    monkeypatch.setattr(DeadLetterPublisher, "after_batch", fails)
    with pytest.raises(BadRecordError, match="the driver dies here"):
        run(session, DEAD_LETTER)
    monkeypatch.setattr(DeadLetterPublisher, "after_batch", after_batch)
    run(session, DEAD_LETTER)

    values = [bytes(row.value).decode() for row in delta(session, LETTERS)]
    assert sorted(row.id for row in delta(session, "kept")) == [
        number for number in range(RECORDS) if not is_bad(number)
    ]
    assert sorted(values) == sorted(line(number) for number in range(RECORDS) if is_bad(number))


@pytest.mark.nightly
def test_a_crash_behind_the_letters_doubles_none(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is done again: the sink of the letters has them."""
    after_batch = DeadLetterPublisher.after_batch

    def fails_behind(desk: DeadLetterPublisher, batch: Any) -> None:
        after_batch(desk, batch)
        raise BadRecordError("the driver dies here")

    monkeypatch.setattr(DeadLetterPublisher, "after_batch", fails_behind)
    for _ in range(2):
        with pytest.raises(BadRecordError, match="the driver dies here"):
            run(session, DEAD_LETTER)
    monkeypatch.setattr(DeadLetterPublisher, "after_batch", after_batch)
    run(session, DEAD_LETTER)

    values = [bytes(row.value).decode() for row in delta(session, LETTERS)]
    assert sorted(values) == sorted(line(number) for number in range(RECORDS) if is_bad(number))


@pytest.mark.parametrize("policy", ["skip", pytest.param("dead-letter", marks=pytest.mark.nightly)])
def test_nothing_but_bad_records_stops_the_query_before_its_second_batch(
    session: Session, policy: str
) -> None:
    """The circuit breaker (case 38): no rows, no letters; with the limit lifted the query goes on where it was."""
    bad = "\n".join("nonsense" for _ in range(4 * 40_000 // 9))
    (Path.cwd() / "in" / "a #1.json").write_text(bad, encoding="utf-8")
    with pytest.raises(BadRecordError, match="too many bad records in a batch"):
        run(session, f", 'bad-records' = '{policy}'")
    commits = Path(".penstock/checkpoints/bad/kept/commits")
    stopped_at = list(commits.glob("[0-9]*")) if commits.exists() else []
    staged = list(Path(".penstock/checkpoints/bad/kept/dead-letters-staging").rglob("*.parquet"))
    job = run(session, f", 'bad-records' = '{policy}', 'bad-records.max-ratio' = '100%'")

    assert stopped_at == []
    assert staged == []
    assert delta(session, "kept") == []
    assert job.progress.bad_records == 4 * 40_000 // 9
    if policy == "dead-letter":
        assert len(delta(session, LETTERS)) == 4 * 40_000 // 9


@pytest.mark.nightly
def test_the_table_for_dead_letters_may_be_elsewhere(
    session: Session, make_other: Callable[[str], None]
) -> None:
    """A path of the user's; what is there and is no table of dead letters is refused before anything runs."""
    make_other("other")
    with pytest.raises(StateMismatchError, match="is not the declared table"):
        run(session, f"{DEAD_LETTER}, 'dead-letter.path' = 'other'")
    run(session, f"{DEAD_LETTER}, 'dead-letter.path' = 'letters'")

    assert len(delta(session, "letters")) == RECORDS // EVERY
    assert not Path(LETTERS).exists()


@pytest.fixture
def make_other(spark: SparkSession) -> Callable[[str], None]:
    """Makes a Delta table of one column."""
    return lambda path: spark.range(1).write.format("delta").save(str(Path.cwd() / path))
