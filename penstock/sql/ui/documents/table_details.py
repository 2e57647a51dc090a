"""What the page of a table adds to its definition: its options with their origin, who reads and writes it.

The page of a pipeline has the latter of what it writes. Who does so is known from the catalog's views and the SQL files
of the project, which are read when somebody asks, and again once one of them was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from penstock.catalog.errors import InputError
from penstock.catalog.masking import without_secrets
from penstock.catalog.options.option import Option
from penstock.catalog.options.redaction import redact
from penstock.connector.registry import options_of
from penstock.sql.clock import Clock, SystemClock
from penstock.sql.compatibility.options_page import default_text
from penstock.sql.lineage.build import LineageBuilder
from penstock.sql.lineage.files import add_project
from penstock.sql.lineage.graph import Direction, Graph, LineageQuery
from penstock.sql.script.project import project_files
from penstock.sql.ui.documents.background import BackgroundLook
from penstock.sql.ui.documents.fields import Document, known

if TYPE_CHECKING:
    from penstock.catalog.definitions.resolver import Namespace
    from penstock.catalog.model.identifier import Identifier
    from penstock.catalog.model.table import Table
    from penstock.sql.script.project import Project


FRESH_MS = 10_000
"""For how long lists and pipelines are shown with the lineage that was found last: to compare it reads the catalog."""

FIRST_LOOK_MS = 1_000
"""For how long of the first look these pages wait."""


def table_options(table: Table) -> list[Document]:
    """Describe the options that hold for a table: its own, then the connector's that have a default."""
    declared = {each.key: each for each in options_of(table.connector) if isinstance(each, Option)}
    own = redact(table.option_map)
    found = [
        known(
            key=key, value=without_secrets(value), origin="table", meaning=_meaning(declared, key)
        )
        for key, value in own.items()
    ]
    for key, option in sorted(declared.items()):
        text = default_text(option)
        if key not in own and text:
            found.append(known(key=key, value=text, origin="default", meaning=option.doc))
    return found


def _meaning(declared: dict[str, Option[object]], key: str) -> str | None:
    return declared[key].doc if key in declared else None


@dataclass(slots=True, kw_only=True)
class LineageLook:
    """What is around an object. The lineage of all is put together once, until the catalog or a file is another.

    May be used on any thread.
    """

    clock: Clock = field(default_factory=SystemClock)
    _lock: Lock = field(default_factory=Lock)
    _standing: object = None
    _found: tuple[Graph, tuple[str, ...]] | None = None
    _looks: BackgroundLook[Graph] = field(init=False)

    def __post_init__(self) -> None:
        self._looks = BackgroundLook(name="penstock lineage", fresh_ms=FRESH_MS, clock=self.clock)

    def document(self, start: Identifier, namespace: Namespace, project: Project) -> Document:
        """Describe the queries around an object: those that read it, that fill it, and what is before and behind."""
        graph, notes = self._lineage(namespace, project)
        around = graph.around(start, ("upstream", "downstream"))
        return flows_beside(start, graph) | known(
            lineage=[flow for query in around.flows for flow in _flows(query)],
            lineage_notes=[without_secrets(note) for note in notes],
        )

    def recent(self, namespace: Namespace, project: Callable[[], Project]) -> Graph | None:
        """Return the lineage as it was found last, and look again where that is old; None while it is not known.

        The page of a pipeline asks for it at each batch, and must not wait for a catalog that does not answer.
        """
        latest = self._looks.latest(
            lambda: self._lineage(namespace, project())[0], wait_ms=FIRST_LOOK_MS
        )
        return latest.found

    def _lineage(self, namespace: Namespace, project: Project) -> tuple[Graph, tuple[str, ...]]:
        # one thread at a time: the parser holds the interpreter, which batches need
        with self._lock:
            standing = (project, _objects(namespace), _files(project))
            if self._found is None or self._standing != standing:
                self._found = _lineage(namespace, project)
                self._standing = standing
            return self._found


def flows_beside(start: Identifier, graph: Graph) -> Document:
    """Describe the queries that read an object, and those that fill it."""
    return known(
        readers=[flow for query in graph.out_of(start) for flow in _flows(query, only=start)],
        writers=[flow for query in graph.into(start) for flow in _flows(query)],
    )


def flows_around(
    written: Sequence[Identifier], graph: Graph, read: Sequence[Identifier]
) -> list[Document]:
    """Describe the queries before and behind tables that a query writes, and the query itself, which reads `read`."""
    queries = _around(written, graph, ("upstream", "downstream"))
    filled = {query.target for query in queries}
    # a query of no file of the project
    own = [
        LineageQuery(target=each, sources=tuple(read), by="INSERT")
        for each in written
        if each not in filled
    ]
    if own:
        queries = [*dict.fromkeys([*_around(read, graph, ("upstream",)), *queries]), *own]
    return [flow for query in queries for flow in _flows(query)]


def _around(
    starts: Sequence[Identifier], graph: Graph, directions: tuple[Direction, ...]
) -> list[LineageQuery]:
    """Return the queries around objects, each once."""
    return list(
        dict.fromkeys(flow for start in starts for flow in graph.around(start, directions).flows)
    )


def _objects(namespace: Namespace) -> tuple[object, ...]:
    """Return what the catalog has, to compare."""
    store = namespace.catalog
    return tuple((name, _object(name, namespace)) for name in (*store.tables(), *store.views()))


def _object(name: Identifier, namespace: Namespace) -> object:
    try:
        return namespace.lookup(name)
    except InputError as error:
        return error.message  # the lineage has a note of it


def _files(project: Project) -> tuple[object, ...]:
    """Return the SQL files of a project and their macros, with what changes when they are written."""
    if project.file is None:
        return ()
    macros = project.folders.macro_folder
    found = []
    for path in (*project_files(project), *sorted(macros.rglob("*"))):
        try:
            stat = path.stat()
        except OSError:
            continue  # removed meanwhile
        found.append((path, stat.st_mtime_ns, stat.st_size))
    return tuple(found)


def _lineage(namespace: Namespace, project: Project) -> tuple[Graph, tuple[str, ...]]:
    builder = LineageBuilder()
    store = namespace.catalog
    builder.add_objects((*store.tables(), *store.views()), namespace)
    if project.file is not None:
        add_project(builder, namespace, project, project.variables)
    return builder.graph(), tuple(builder.notes)


def _flows(query: LineageQuery, *, only: Identifier | None = None) -> Iterator[Document]:
    for source in dict.fromkeys(query.sources):
        if only in {None, source}:
            yield known(
                source=str(source), target=str(query.target), by=query.by, position=query.position
            )
