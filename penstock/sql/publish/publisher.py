"""Publish the catalog to Spark: `spark.sql("SELECT ... FROM orders")` finds its tables and views.

Names go into Spark's session catalog: those of the default database into the database that Spark is in, those of other
databases into databases of their name. Existing names are never replaced. A Delta table keeps its own way of being
read; tables of the split runtime are read once, to what they hold when a query starts. docs/spark-sql.md says what is
visible where, and why entries are removed when the session stops. `connect` starts it (argument `publish`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import RLock
from typing import assert_never
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    ConfigError,
    PenstockError,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.model.identifier import Identifier, quoted
from penstock.catalog.model.namespaces import INFORMATION_SCHEMA
from penstock.catalog.model.table import Table, View
from penstock.sql.dialect import parse_query
from penstock.sql.execution.functions import called_names, register_called
from penstock.sql.publish.entries import PublishedNames, SparkEntries, is_durable
from penstock.sql.publish.objects import (
    PublishedColumn,
    PublishedFrame,
    PublishedQuery,
    PublishedScan,
    PublishedSource,
    PublishedTable,
    fields_of,
    resolve_published,
)
from penstock.sql.publish.text import PublishedName

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpublishedObject:
    """A table or view that plain Spark SQL does not find, and why."""

    identifier: Identifier
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _PublishedEntry:
    """What was published for a definition. `relation` is the temporary view that reads its scan."""

    definition: Table | View
    published_name: PublishedName
    relation: str | None = None
    pending: bool = False
    text: str | None = None
    fields: tuple[PublishedColumn, ...] = ()


class CatalogPublisher:
    """The names of a catalog in Spark's session catalog. Any thread may `refresh`, one at a time does.

    `catalog` identifies a catalog: entries that a session over the same one has left are taken over. `hidden` names
    tables of `information_schema` that are not published.
    """

    def __init__(
        self,
        spark: SparkSession,
        namespace: Namespace,
        project: Path,
        *,
        catalog: str,
        durable: bool = False,
        information: bool = True,
        hidden: Collection[str] = (),
    ) -> None:
        self._spark = spark
        self._extra = (INFORMATION_SCHEMA,) if information else ()
        self._hidden = frozenset(hidden)
        self._namespace = namespace
        self._project = project
        self._durable = durable
        self._url = catalog
        family = f"{hashlib.sha256(catalog.encode()).hexdigest()[:12]}/"
        self._tag = uuid4().hex[:8]
        self._lasting = f"{family}durable"
        self._entries = SparkEntries(spark, self._lasting if durable else f"{family}{self._tag}")
        self._names = PublishedNames(
            self._entries,
            family=family,
            lasting=self._lasting,
            home=spark.catalog.currentDatabase(),
            default_database=namespace.catalog.default_database,
        )
        self._catalog = namespace.current_catalog
        self._lock = RLock()
        self._relations = 0
        self._there: dict[Identifier, _PublishedEntry] = {}
        self._left_out: dict[Identifier, tuple[Table | View, str]] = {}
        self._seen: object = None

    @property
    def names(self) -> Mapping[Identifier, PublishedName]:
        """What is published, and under which names of Spark's."""
        return {identifier: entry.published_name for identifier, entry in self._there.items()}

    @property
    def left_out(self) -> tuple[UnpublishedObject, ...]:
        """What plain Spark SQL does not find, by name."""
        return tuple(
            UnpublishedObject(identifier=identifier, why=self._left_out[identifier][1])
            for identifier in sorted(self._left_out)
        )

    def refresh(self) -> None:
        """Update what Spark sees to what the catalog holds now: new, changed and dropped definitions.

        Also checks again tables that had no rows yet. Raises CatalogError when the catalog cannot be read.
        """
        with self._lock:
            self._names.forget()  # others make tables too
            seen = (
                self._namespace.catalog.history(limit=1),
                tuple(self._namespace.temporary()),
            )
            if seen == self._seen:
                self._take_new({i: e.definition for i, e in self._there.items() if e.pending})
                return
            wanted = dict(self._definitions())
            for identifier in [i for i in self._there if i not in wanted]:
                self._remove(identifier)
            self._left_out = {i: known for i, known in self._left_out.items() if i in wanted}
            tables = {i: found for i, found in wanted.items() if isinstance(found, Table)}
            changed = self._take_new(tables)
            views = {i: found for i, found in wanted.items() if isinstance(found, View)}
            if changed:
                self._left_out = {i: k for i, k in self._left_out.items() if i not in views}
            self._take_new(views, again=changed)
            self._seen = seen

    def close(self) -> None:
        """Remove the names, except those that were left for others."""
        with self._lock:
            if not self._durable:
                for identifier in tuple(self._there):
                    self._remove(identifier, closing=True)
                self._names.close()
            self._there.clear()

    def _definitions(self) -> Iterator[tuple[Identifier, Table | View]]:
        namespace, catalog = self._namespace, self._catalog
        for database in (*namespace.databases(catalog), *self._extra):
            for identifier in (
                *namespace.tables(database, catalog),
                *namespace.views(database, catalog),
            ):
                if database == INFORMATION_SCHEMA and identifier.name in self._hidden:
                    continue
                try:
                    yield identifier, namespace.lookup(identifier)
                except UnknownObjectError:
                    continue  # dropped since it was listed

    def _take_new(self, wanted: Mapping[Identifier, Table | View], *, again: bool = False) -> bool:
        """Publish definitions that are missing or changed; returns whether there were any."""
        changed = False
        for identifier, found in wanted.items():
            entry = self._there.get(identifier)
            known = (
                entry.definition
                if entry is not None
                else self._left_out.get(identifier, (None,))[0]
            )
            pending = entry is not None and entry.pending
            if known == found and not (again or pending):
                continue
            changed |= self._take(identifier, found, entry)
        return changed

    def _take(
        self, identifier: Identifier, found: Table | View, entry: _PublishedEntry | None
    ) -> bool:
        """Publish one definition, replacing what was published for it; returns whether anything has changed."""
        if found.temporary and self._durable:
            return False
        try:
            published_name = (
                entry.published_name
                if entry is not None
                else self._names.find(identifier, self.names)
            )
            meant = resolve_published(
                found,
                self._namespace,
                self._project,
                self._spark,
                self.names,
                catalog=self._url,
            )
            fields = fields_of(found, self._namespace)
            if entry is not None and entry.definition == found and _same(entry, meant, fields):
                return False
            if entry is not None:
                self._remove(identifier)
            self._there[identifier] = self._put(published_name, found, meant, fields)
            self._left_out.pop(identifier, None)
        except (PenstockError, PySparkException) as error:
            if identifier in self._there:
                self._remove(identifier)
            why = error.message if isinstance(error, PenstockError) else _first_line(error)
            self._left_out[identifier] = (found, why)
            log.info("Spark SQL does not see %s: %s", identifier, why)
        return True

    def _put(
        self,
        published_name: PublishedName,
        found: Table | View,
        meant: PublishedSource,
        fields: tuple[PublishedColumn, ...],
    ) -> _PublishedEntry:
        self._names.take(published_name)
        lasts = self._names.is_for_good(published_name) and not found.temporary
        owner = self._lasting if lasts else None
        match meant:
            case PublishedTable(provider=provider, location=location):
                self._entries.put_table(
                    published_name, provider, location, _schema(fields), found.comment, owner=owner
                )
                return _PublishedEntry(definition=found, published_name=published_name)
            case PublishedScan() | PublishedFrame() if not self._durable:
                relation = self._relation(meant)
                text = meant.text(f"global_temp.{quoted(relation)}")
                self._entries.put_view(
                    published_name,
                    text,
                    self._typed(fields, text),
                    found.comment,
                    temporary_views=(relation,),
                )
                return _PublishedEntry(
                    definition=found, published_name=published_name, relation=relation
                )
            case PublishedScan() | PublishedFrame():
                raise UnsupportedError(
                    "it is read by this process, and others would find a name they cannot read"
                )
            case PublishedQuery(text=text):
                functions = self._functions(found)
                self._entries.put_view(
                    published_name,
                    text,
                    self._typed(fields, text),
                    found.comment,
                    functions=functions,
                    owner=owner,
                )
                return _PublishedEntry(
                    definition=found,
                    published_name=published_name,
                    pending=meant.pending,
                    text=text,
                    fields=fields,
                )
        assert_never(meant)

    def _relation(self, meant: PublishedScan | PublishedFrame) -> str:
        """Make the temporary view that reads a table; all of this Spark's sessions see it."""
        self._relations += 1
        name = f"penstock_{self._tag}_{self._relations}"
        meant.frame(self._spark).createGlobalTempView(name)
        return name

    def _functions(self, found: Table | View) -> tuple[str, ...]:
        if not isinstance(found, View):
            return ()
        query = parse_query(found.query)
        register_called(query, self._namespace, self._spark, self._project)
        return called_names(query, self._namespace)

    def _typed(self, fields: tuple[PublishedColumn, ...], text: str) -> StructType:
        """Return the columns of a text; Spark is asked only where they are unknown without it."""
        if fields and all(field.type is not None for field in fields):
            return _schema(fields)
        comments = {field.name: field.comment for field in fields}
        schema = self._spark.sql(text).schema
        return StructType([_field(f.name, f.dataType, comments.get(f.name)) for f in schema.fields])

    def _remove(self, identifier: Identifier, *, closing: bool = False) -> None:
        entry = self._there.pop(identifier)
        self._entries.drop(
            entry.published_name,
            whoever=not closing and self._names.is_for_good(entry.published_name),
        )
        self._names.release(entry.published_name)
        if entry.relation is not None:
            self._spark.catalog.dropGlobalTempView(entry.relation)


def _same(
    entry: _PublishedEntry, meant: PublishedSource, fields: tuple[PublishedColumn, ...]
) -> bool:
    """Return whether what is published for an unchanged definition would be published again."""
    return isinstance(meant, PublishedQuery) and (meant.text, fields) == (entry.text, entry.fields)


def _schema(fields: tuple[PublishedColumn, ...]) -> StructType:
    return StructType([_field(f.name, f.type or StringType(), f.comment) for f in fields])


def _field(name: str, kind: object, comment: str | None) -> StructField:
    metadata = None if comment is None else {"comment": comment}
    return StructField(name, kind, True, metadata)  # type: ignore[arg-type]


def _first_line(error: PySparkException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


class Publishing(StrEnum):
    """What is published, and for how long.

    SESSION: everything, `information_schema` too, until the session stops. TABLES: the same, but of
    `information_schema` nothing about operations: options, functions, pipelines, checkpoints. DURABLE: what others can
    read too, permanently; for a Hive metastore. OFF: nothing.
    """

    SESSION = "session"
    TABLES = "tables"
    DURABLE = "durable"
    OFF = "off"


_INFORMATION: Mapping[Publishing | None, frozenset[str]] = {
    Publishing.SESSION: frozenset(),
    Publishing.TABLES: frozenset(
        {"options", "functions", "pipelines", "checkpoints", "operator_states"}
    ),
}
"""The tables of `information_schema` that are not published, where it is published at all."""


def read_publishing(text: str | None) -> Publishing | None:
    """Read the argument `publish`. Raises ConfigError."""
    if text is None:
        return None
    try:
        return Publishing(text)
    except ValueError:
        known = [choice.value for choice in Publishing]
        raise ConfigError(
            f"publish = {text!r}: it is one of {', '.join(map(repr, known))}",
            hint=did_you_mean(text, known),
        ) from None


def start_publishing(
    spark: SparkSession,
    namespace: Namespace,
    choice: Publishing | None,
    *,
    project: Path,
    catalog: str,
) -> CatalogPublisher | None:
    """Publish as asked; without a choice for the session, but not into a metastore that others share.

    There, names would come and go before everybody's eyes, for tables that only this process can read. `catalog` is
    the URL of the store. Raises CatalogError when the catalog cannot be read.
    """
    if choice is None and is_durable(spark):
        log.info(
            "this Spark keeps its catalog in a Hive metastore, so spark.sql does not see Penstock's tables; "
            "penstock.connect(spark, publish='session') shows them there until the session stops, "
            "publish='durable' shows Delta tables for good"
        )
        return None
    if choice is Publishing.OFF:
        return None
    # nine more tables for each session: for those that ask
    published = CatalogPublisher(
        spark,
        namespace,
        project,
        catalog=catalog,
        durable=choice is Publishing.DURABLE,
        information=choice in _INFORMATION,
        hidden=_INFORMATION.get(choice, frozenset()),
    )
    published.refresh()
    return published
