"""Finds the dead letters of a project, in tables and topics, and replays records of them to Kafka."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import assert_never

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.definitions.contract import Catalog
from penstock.catalog.definitions.encryption import encrypt_references
from penstock.catalog.errors import (
    InputError,
    StateMismatchError,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.catalog.model.identifier import Identifier, parse_identifier
from penstock.catalog.model.table import Table
from penstock.connector.capabilities import TopicAccess
from penstock.connector.dead_letters.backends import (
    DeadLetterBackend,
    DeltaDeadLetters,
    KafkaDeadLetters,
)
from penstock.connector.dead_letters.delta_files import DeadLetterFiles, has_dead_letters
from penstock.connector.dead_letters.store import DeadLetterStore, Replay, no_dead_letters
from penstock.connector.dead_letters.table import FOLDER, REPLAYED_SUFFIX
from penstock.connector.options.bad_records import (
    BesideCheckpoint,
    DeltaPath,
    KafkaTopic,
    bad_record_settings,
    cluster_of,
)
from penstock.connector.registry import connector_of
from penstock.connector.spark.hadoop_files import list_names
from penstock.connector.urls import is_url, resolve_path
from penstock.sql.checkpoint.identity import (
    checkpoint_root,
    folder_name,
    old_folder_name,
    read_identity,
)
from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.checkpoint.search import OpenFiles, is_checkpoint
from penstock.sql.clock import SystemClock
from penstock.sql.script.project import Project
from penstock.sql.settings import CHECKPOINT_DIR

_BROKERS = "properties.bootstrap.servers"

TOPICS = "dead-letter-topics"
"""Folder beside the pipelines' checkpoints: which dead letters of topics were replayed."""

MARKER_LASTS_MS = 6 * 86_400_000
"""How long a replay's marker is trusted: brokers forget it after offsets.retention.minutes, 7 days by default."""


def find_dead_letter_stores(
    spark: SparkSession,
    project: Project,
    catalog: Catalog,
    workdir: Path,
    *,
    pipelines: Collection[str] | None,
    path: str | None,
    bases: Collection[str] = (),
) -> Sequence[DeadLetterStore]:
    """Find dead letters: the Delta table at `path`, else those of the project's checkpoints and of its tables.

    `pipelines` restricts them; None is all. `bases` are folders of checkpoints beside the project's. `workdir` is
    private to this process. Raises BrokerUnavailableError.
    """
    backends: list[DeadLetterBackend] = []
    if path is not None:
        backends.append(DeltaDeadLetters(path=resolve_path(path, project.root)))
    else:
        for root in dict.fromkeys(
            (_checkpoints(project), *(checkpoint_root(b, project.root) for b in bases))
        ):
            beside = _beside_checkpoints(partial(list_names, spark), root, pipelines)
            backends += (DeltaDeadLetters(path=one) for one in beside)
        backends += _named(catalog, project, workdir)
    found = tuple(dict.fromkeys(backends))
    clusters = _clusters(catalog)
    shelves = [
        DeadLetterStore(
            spark=spark,
            backend=one,
            project=project.root,
            pipelines=None if pipelines is None else tuple(pipelines),
            others=tuple(other for other in found if other != one),
            clusters=clusters,
        )
        for one in found
    ]
    # one that was named has to be there, and is missed when it is looked at
    return [shelf for shelf in shelves if path is not None or shelf.exists()]


def find_dead_letter_files(
    project: Project,
    catalog: Catalog,
    *,
    pipelines: Collection[str] | None,
    path: str | None,
    bases: Collection[str] = (),
) -> list[DeadLetterFiles] | None:
    """Find dead letters as `find_dead_letter_stores` does, without Spark.

    Return None where some are in a topic or behind a URL.

    Raises UnknownObjectError for a `path` without.
    """
    roots: list[str] = []
    roots_of_files = [] if path is None else [resolve_path(path, project.root)]
    if path is None:
        named = list(_named(catalog, project, Path()))
        roots_of_files = [
            backend.path for backend in named if isinstance(backend, DeltaDeadLetters)
        ]
        if len(roots_of_files) < len(named):
            return None
        roots = [_checkpoints(project), *(checkpoint_root(base, project.root) for base in bases)]
    if any(map(is_url, (*roots, *roots_of_files))):
        return None
    beside = [
        one
        for root in dict.fromkeys(roots)
        for one in _beside_checkpoints(lambda f: LocalFiles(location=f).names(""), root, pipelines)
    ]
    found = tuple(dict.fromkeys((*beside, *roots_of_files)))
    there = [one for one in found if has_dead_letters(one)]
    if path is not None and not there:
        raise no_dead_letters(roots_of_files[0])
    clusters = _clusters(catalog)
    return [
        DeadLetterFiles(
            path=one,
            pipelines=None if pipelines is None else tuple(pipelines),
            others=tuple(other for other in found if other != one),
            clusters=clusters,
        )
        for one in there
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterReplayer:
    """Replays records. `target` is a topic for all of them, None is each record's own."""

    catalog: Catalog
    project: Path
    target: str | None

    def run_all(self, shelves: Sequence[DeadLetterStore], *, really: bool) -> Iterator[str]:
        """Replay the waiting records of several places, a record that is in more than one of them
        once, as `run` does.
        """
        for index, shelf in enumerate(shelves):
            yield from self.run(shelf, really=really, besides=() if really else shelves[:index])

    def run(
        self, shelf: DeadLetterStore, *, really: bool, besides: Sequence[DeadLetterStore] = ()
    ) -> Iterator[str]:
        """Replay the waiting records, or report those that would be; returns lines for people. Raises InputError,
        RunError.

        Records that wait in `besides` are not reported again.
        """
        for replay in shelf.unfinished():
            yield self._again(shelf, replay) if really else self._line(replay, "would resume")
        waiting = (
            shelf.waiting(self.target, besides)
            .groupBy("table")
            .agg(F.count(F.lit(1)).alias("count"), F.collect_set("topic").alias("topics"))
        )
        for row in waiting.orderBy("table").collect():
            if not really:
                where = self.target or "the topics they came from"
                yield f"would replay {row['count']} records of {row['table']} to {where}"
                continue
            # refused before anything is written down
            topics = self._topics(row["table"])
            topics.check([self.target] if self.target else row["topics"])
            planned = shelf.plan(row["table"], self.target)
            if planned is not None:
                yield self._give(shelf, planned, topics)

    def _again(self, shelf: DeadLetterStore, replay: Replay) -> str:
        if SystemClock().now_ms() - replay.planned_at_ms > MARKER_LASTS_MS:
            raise StateMismatchError(
                f"replay {replay.replay_id} of {replay.records} records of {replay.table} was begun more than six "
                "days ago and it is unknown how it ended: the broker has forgotten it by now",
                hint=f"look for its records in topic '{replay.marked}'; then delete the rows of this replay_id from "
                f"the Delta table {shelf.backend.notes} if they are missing there, or add one with the state 'done'",
            )
        topics = self._topics(replay.table)
        try:
            topics.check([replay.marked])
        except UnknownObjectError as error:
            error.hint = (
                f"make it again; or forget replay {replay.replay_id}, which was begun: delete its rows from the Delta "
                f"table {shelf.backend.notes}"
            )
            raise
        return self._give(shelf, replay, topics)

    def _give(self, shelf: DeadLetterStore, replay: Replay, topics: TopicAccess) -> str:
        with closing(shelf.records(replay)) as records:
            count = topics.replay(
                records,
                name=f"penstock-dlq-{replay.replay_id}",
                target=replay.target,
                marked=replay.marked,
            )
        shelf.finish(replay)
        return self._line(replay, "found written" if count is None else "replayed")

    def _line(self, replay: Replay, what: str) -> str:
        where = replay.target or "the topics they came from"
        return f"{what} {replay.records} records of {replay.table} to {where} (replay {replay.replay_id})"

    def _topics(self, name: str) -> TopicAccess:
        """Find the topics beside that of the table that records were read for. Raises InputError."""
        catalog, database, table = parse_identifier(name)
        try:
            found = self.catalog.get(Identifier(catalog=catalog, database=database, name=table))
        except InputError as error:
            error.hint = "the connection to Kafka is that of the table: define it again"
            raise
        topics = None
        if isinstance(found, Table):
            found = encrypt_references(found, self.catalog.secrets)
            topics = connector_of(found, project=self.project).topic_access(found)
        if topics is None:
            raise UnsupportedError(
                f"{name} is no Kafka table now, so its records cannot be replayed to Kafka",
                hint="define it as it was when the records were read",
            )
        return topics


def _beside_checkpoints(
    list_folder: Callable[[str], Sequence[str]], root: str, named: Collection[str] | None
) -> Iterator[str]:
    if named is None:
        pipelines = list_folder(root)
    else:
        # by its name, or as letters have it, with the table behind it
        names = [name for one in named for name in (one, one.rpartition("/")[0] or one)]
        folders = [f for name in names for f in (folder_name(name), old_folder_name(name))]
        pipelines = list(dict.fromkeys(folder for folder in folders if folder is not None))
    for name in pipelines:
        for sink in list_folder(f"{root}/{name}"):
            # not everything beside the checkpoints is one: Delta refuses to look for a table inside a table
            if FOLDER in list_folder(f"{root}/{name}/{sink}"):
                yield f"{root}/{name}/{sink}/{FOLDER}"


def _checkpoints(project: Project) -> str:
    """Return the folder of all checkpoints."""
    base = project.settings.get(CHECKPOINT_DIR.key, CHECKPOINT_DIR.default or "")
    return checkpoint_root(base, project.root)


def known_pipelines(open_files: OpenFiles, project: Project, catalog: Catalog) -> list[str]:
    """Name the pipelines that have checkpoints in the project, or run."""
    root, found = _checkpoints(project), set()
    for folder in open_files(root).names(""):
        for sink in open_files(f"{root}/{folder}").names(""):
            files = open_files(f"{root}/{folder}/{sink}")
            if is_checkpoint(files):
                identity = read_identity(files)
                found.add(folder if identity is None else identity.pipeline)
    found |= {claim.lease.pipeline.rpartition("/")[0] for claim in catalog.leases.claims()}
    return sorted(found)


def _clusters(catalog: Catalog) -> dict[str, str]:
    """Return the brokers of each Kafka table: they distinguish two topics of one name."""
    found = {}
    for identifier in catalog.tables():
        table = catalog.get(identifier)
        if isinstance(table, Table) and (brokers := table.option_map.get(_BROKERS)):
            found[str(identifier)] = ",".join(sorted(one.strip() for one in brokers.split(",")))
    return found


def _named(catalog: Catalog, project: Project, workdir: Path) -> Iterator[DeadLetterBackend]:
    for identifier in catalog.tables():
        table = catalog.get(identifier)
        if not isinstance(table, Table):
            continue
        outlet = bad_record_settings(table).outlet
        match outlet:
            case BesideCheckpoint():
                continue
            case DeltaPath(path=path):
                yield DeltaDeadLetters(path=resolve_path(path, project.root))
            case KafkaTopic(topic=topic):
                cluster = cluster_of(encrypt_references(table, catalog.secrets).option_map) or ()
                yield KafkaDeadLetters(
                    outlet=replace(outlet, cluster=cluster),
                    brokers=outlet.brokers,
                    notes=f"{_checkpoints(project)}/{TOPICS}/{topic}{REPLAYED_SUFFIX}",
                    workdir=workdir,
                    project=project.root,
                )
            case _:
                assert_never(outlet)
