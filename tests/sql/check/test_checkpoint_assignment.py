"""Which checkpoint each INSERT of a file resumes from, whatever was added, removed or moved around it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.catalog.errors import StateMismatchError
from tests.sql.checkpointed import HIGH, LOW, MINE, VALUES, Job


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(project=tmp_path, settings={})


def test_an_insert_that_is_added_above_another_does_not_take_its_checkpoint(job: Job) -> None:
    """The one that was there goes on, the new one begins."""
    assert job.run(LOW) == ["o"]

    low, high = job.named(LOW, HIGH)
    above, below = job.named(HIGH, LOW)

    assert (low.identity.query, high.identity.query) == ("o", "o-2")
    assert (above.identity.query, below.identity.query) == ("o-2", "o")


def test_an_insert_whose_neighbour_is_removed_keeps_its_checkpoint(job: Job) -> None:
    """Also where it stands first now."""
    assert job.run(LOW, HIGH) == ["o", "o-2"]

    (high,) = job.named(HIGH)

    assert high.identity.query == "o-2"
    assert high.checkpoint.endswith("/job/o-2")


def test_inserts_that_change_places_keep_their_checkpoints(job: Job) -> None:
    """Comments, white space and INSERT .. VALUES between them do not matter either."""
    assert job.run(LOW, MINE, HIGH) == ["o", "o-2", "o-3"]

    locations = job.named(
        VALUES, HIGH, "-- later\n" + MINE, LOW.replace("SELECT a, b", "select  a ,\n b")
    )

    assert [location.identity.query for location in locations[1:]] == ["o-3", "o-2", "o"]


def test_a_statement_that_another_version_wrote_in_other_words_is_the_same(job: Job) -> None:
    """Texts are compared as this version reads and writes them; letter case of a string is none of that."""
    columns = HIGH.replace("INTO o", "INTO o (a, b)").replace(
        "src", "src /*+ OPTIONS('topic' = 'u') */"
    )
    assert job.run(LOW, columns, MINE) == ["o", "o-2", "o-3"]
    for entry in job.project.glob(".penstock/checkpoints/job/*/penstock-identity/0.json"):
        text = entry.read_text()
        assert "SELECT" in text
        for ours, other in (
            (" SELECT ", " select  "),
            ("WHERE a", "where  a"),
            ("'mine'", "'Mine'"),
        ):
            text = text.replace(ours, other)
        entry.write_text(text)

    high, low = job.named(columns, LOW)

    assert [one.identity.query for one in (high, low)] == ["o-2", "o"]
    assert (high.before, low.before) == (None, None)
    with pytest.raises(StateMismatchError, match="is not clear"):
        job.named(MINE)


def test_one_insert_of_several_may_be_changed(job: Job) -> None:
    """It is the only one that is in no checkpoint, and there is one checkpoint that none is in: which is told."""
    job.run(LOW, HIGH)

    changed, high = job.named(LOW.replace("10", "5"), HIGH)

    assert (changed.identity.query, high.identity.query) == ("o", "o-2")
    assert "10" in (changed.before or "")
    assert high.before is None


@pytest.mark.parametrize(
    "texts",
    [
        (LOW.replace("10", "5"), HIGH.replace("10", "5")),
        (LOW.replace("10", "5"),),
        (LOW.replace("10", "5"), MINE, HIGH.replace("10", "5")),
    ],
)
def test_a_run_is_refused_where_it_is_not_clear_which_insert_was_changed(
    job: Job, texts: tuple[str, ...]
) -> None:
    """The message names each INSERT, each checkpoint and the command that says which is which."""
    job.run(LOW, HIGH)

    with pytest.raises(StateMismatchError) as caught:
        job.named(*texts)

    error = caught.value
    assert all(f"line {6 + n}: INSERT INTO" in error.message for n, _ in enumerate(texts))
    assert "'o'" in error.message
    assert "'o-2'" in error.message
    assert "penstock checkpoint assign" in (error.hint or "")
    assert error.span is not None


def test_a_changed_insert_beside_a_new_one_is_refused(job: Job) -> None:
    """Either may be the one that the checkpoint is of."""
    job.run(LOW)

    with pytest.raises(StateMismatchError):
        job.named(LOW.replace("10", "5"), HIGH)


def test_from_scratch_asks_nobody(job: Job) -> None:
    """No checkpoint is gone on from."""
    job.run(LOW, HIGH)

    (location,) = job.named(LOW.replace("10", "5"), from_scratch=True)

    assert location.identity.query == "o"


def test_what_reads_or_keeps_something_else_is_told_apart(job: Job) -> None:
    """Only one way to bring changed INSERTs and checkpoints together fits their state."""
    count = "INSERT INTO o SELECT COUNT(*), b FROM src GROUP BY b;"
    keyed = count.replace("INTO o", "INTO k")
    keys = "CREATE TABLE k (a BIGINT, b STRING, PRIMARY KEY (b) NOT ENFORCED) WITH ('connector' = 'delta', 'path' = 'k');"
    plain = "INSERT INTO k SELECT a, b FROM src;"
    first = job.named(keys, keyed, plain)
    for location, text in zip(first, (keyed, plain), strict=True):
        job.start(location, keys + text)

    locations = job.named(
        keys, plain.replace("src", "src WHERE a > 1"), keyed.replace("src", "src WHERE a > 1")
    )

    assert [location.identity.query for location in locations] == ["k-2", "k"]


def test_a_single_insert_may_be_changed_as_before(job: Job) -> None:
    """Filters may change over a checkpoint."""
    job.run(LOW)

    (location,) = job.named(MINE)

    assert location.identity.query == "o"


def test_a_file_of_the_same_pipeline_does_not_take_the_checkpoint_of_another(job: Job) -> None:
    """As long as that is there: penstock.toml may name the pipeline of all files."""
    shared = Job(project=job.project, settings={"pipeline.name": "all"})
    assert shared.run(LOW, file="first.sql") == ["o"]

    assert shared.run(HIGH, file="second.sql") == ["o-2"]
    assert shared.run(LOW.replace("10", "5"), file="first.sql") == ["o"]
    (job.project / "first.sql").rename(job.project / "renamed.sql")
    assert shared.run(LOW.replace("10", "5"), file="renamed.sql") == ["o"]


def test_a_changed_insert_does_not_take_the_checkpoint_of_a_file_that_is_gone(job: Job) -> None:
    """That file may have been renamed, or removed: the run is refused until it is said."""
    shared = Job(project=job.project, settings={"pipeline.name": "all"})
    shared.run(LOW, file="first.sql")
    (job.project / "first.sql").unlink()

    with pytest.raises(StateMismatchError, match="is not clear"):
        shared.named(MINE, file="second.sql")


def test_tables_whose_names_end_like_a_number_have_names_of_their_own(job: Job) -> None:
    """`o-2` is a table here, and would be the name of the second INSERT into `o`."""
    table = "CREATE TABLE `o-2` (a BIGINT, b STRING) WITH ('connector' = 'delta', 'path' = 'o2');"

    locations = job.named(table, LOW, HIGH, HIGH.replace("INTO o", "INTO `o-2`"))

    assert len({location.checkpoint for location in locations}) == 3


def test_checkpoints_without_statements_go_on_by_their_places(job: Job) -> None:
    """Those of an earlier version, as long as there are as many INSERTs."""
    job.old("job", "o", LOW)
    job.old("job", "o-2", HIGH)

    assert job.run(LOW, HIGH) == ["o", "o-2"]
    assert job.run(HIGH, LOW) == ["o-2", "o"]  # and are known by their statements from there on


@pytest.mark.parametrize("texts", [(LOW,), (LOW, HIGH, MINE)])
def test_checkpoints_without_statements_are_refused_where_inserts_were_added_or_removed(
    job: Job, texts: tuple[str, ...]
) -> None:
    """Nothing says which is whose."""
    job.old("job", "o", LOW)
    job.old("job", "o-2", HIGH)

    with pytest.raises(StateMismatchError, match="of an unknown statement"):
        job.named(*texts)


@pytest.mark.parametrize(("name", "old"), [("größe", "gr_e"), ("日本", "_"), ("Orders", "Orders")])
def test_a_checkpoint_of_the_old_spelling_is_gone_on_from(job: Job, name: str, old: str) -> None:
    """Where it lies, by the pipeline whose it is; its lease keeps the pipeline of that name away."""
    job.old(old, "o", LOW)

    (location,) = job.named(LOW, file=f"{name}.sql")
    job.start(location, LOW)
    (again,) = job.named(LOW, file=f"{name}.sql")

    assert (
        location.checkpoint
        == again.checkpoint
        == str(job.project / f".penstock/checkpoints/{old}/o")
    )
    assert location.identity.pipeline == name
    assert location.leases == tuple(dict.fromkeys((f"{name}/o", f"{old}/o")))


def test_two_pipelines_that_had_one_checkpoint_are_refused_until_it_is_said_whose_it_is(
    job: Job,
) -> None:
    """Both names wrote it; the message says how to assign it."""
    job.old("_", "o", LOW)
    (job.project / "中国.sql").write_text(HIGH)

    with pytest.raises(StateMismatchError, match="'中国'") as caught:
        job.named(LOW, file="日本.sql")

    assert "penstock checkpoint assign" in (caught.value.hint or "")


def test_names_that_had_one_folder_have_two_checkpoints(job: Job) -> None:
    """Nothing of the one is the other's."""
    first, second = (job.named(LOW, file=f"{name}.sql")[0] for name in ("日本", "中国"))
    job.start(first, LOW)
    (later,) = job.named(LOW, file="中国.sql")

    assert len({first.checkpoint, second.checkpoint}) == 2
    assert later.checkpoint == second.checkpoint


def test_a_checkpoint_of_an_old_spelling_that_names_another_pipeline_is_not_taken(job: Job) -> None:
    """It is that pipeline's; this one begins."""
    job.old("_", "o", LOW)
    (first,) = job.named(LOW, file="日本.sql")
    job.start(first, LOW)
    (job.project / "日本.sql").unlink()

    (second,) = job.named(LOW, file="中国.sql")

    assert second.checkpoint == second.canonical != first.checkpoint


def test_what_hints_hold_of_secrets_is_not_in_the_checkpoint(job: Job) -> None:
    """Options tell INSERTs apart all the same."""
    hinted = LOW.replace(
        "src", "src /*+ OPTIONS('topic' = 'u', 'properties.sasl.password' = 'pa55') */"
    )

    (location,) = job.named(hinted)

    assert '"topic": "u"' in location.identity.text
    assert "pa55" not in json.dumps(location.identity.to_text())
