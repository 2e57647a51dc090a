"""Spark's session catalog, written entry by entry under names that are never those of a foreign table.

The only module that knows the catalog's internals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.catalog.errors import ObjectExistsError
from penstock.catalog.model.identifier import Identifier, quoted
from penstock.connector.spark.internals import jvm_of, session_catalog
from penstock.sql.publish.text import PublishedName

MARK = "penstock.published"
"""The property of an entry, or of a database, with its owner."""

_CATALYST = "org.apache.spark.sql.catalyst.catalog"
_FIRST_DEFAULT, _FIELDS = 5, 22  # CatalogTable: the first four fields are always given
_PROVIDER, _PROPERTIES, _VIEW_TEXT, _COMMENT, _VIEW_ORIGINAL = 5, 12, 14, 15, 21


def is_durable(spark: SparkSession) -> bool:
    """Return whether entries outlive this Spark, and are seen by others: a Hive metastore keeps them."""
    return bool(spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "hive")


class SparkEntries:
    """The entries of one Spark's session catalog; `owner` is the value of MARK for those that are put here."""

    def __init__(self, spark: SparkSession, owner: str) -> None:
        self._spark = spark
        self.owner = owner
        jvm = jvm_of(spark)
        self._jvm = jvm
        self._catalog = session_catalog(spark)
        # looked up once: each name in a Java package is a call
        catalyst = jvm.org.apache.spark.sql.catalyst
        self._entry = catalyst.catalog.CatalogTable
        self._format = catalyst.catalog.CatalogStorageFormat
        self._name = catalyst.TableIdentifier
        self._schema = jvm.org.apache.spark.sql.types.DataType
        self._some = jvm.scala.Some
        self._none = jvm.scala.Option.empty()
        self._maps = jvm.PythonUtils
        self._json = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._map_class = jvm.java.lang.Class.forName("java.util.HashMap")
        tables = self._object(f"{_CATALYST}.CatalogTable")
        numbers = range(_FIRST_DEFAULT, _FIELDS + 1)
        self._defaults = {n: getattr(tables, f"apply$default${n}")() for n in numbers}
        self._storage = self._object(f"{_CATALYST}.CatalogStorageFormat").empty()
        self._kinds = self._object(f"{_CATALYST}.CatalogTableType")
        self._uris = self._object(f"{_CATALYST}.CatalogUtils")

    def names(self, database: str) -> frozenset[str]:
        """List the entries of a database, of any owner, in lower case; empty where there is no such database."""
        if not self._catalog.databaseExists(database):
            return frozenset()
        listed = self._catalog.externalCatalog().listTables(database).mkString("\n")
        return frozenset(name.lower() for name in listed.split("\n") if name)

    def owner_of(self, published_name: PublishedName) -> str | None:
        """Return the owner of an existing entry; None for one that is not Penstock's."""
        found = self._catalog.externalCatalog().getTable(
            published_name.database, published_name.name
        )
        properties = found.properties()
        return str(properties.apply(MARK)) if properties.contains(MARK) else None

    def create_database(self, name: str) -> bool:
        """Make a database unless it exists; returns whether it was made."""
        if self._catalog.databaseExists(name):
            return False
        self._spark.sql(
            f"CREATE DATABASE {quoted(name)} WITH DBPROPERTIES ('{MARK}' = '{self.owner}')"
        )
        return True

    def drop_database(self, name: str) -> None:
        """Remove a database, unless it has entries of others."""
        if not self.names(name):
            self._spark.sql(f"DROP DATABASE IF EXISTS {quoted(name)}")

    def put_table(
        self,
        published_name: PublishedName,
        provider: str,
        location: str,
        schema: StructType,
        comment: str | None,
        *,
        owner: str | None = None,
    ) -> None:
        """Make a name for the table at `location` in the format `provider`, which stays what it is when the name goes.

        `owner` is whose the entry is; None: it is put here.
        """
        storage = self._format(
            self._some(self._uris.stringToURI(location)),
            *(self._none,) * 3,
            False,
            self._storage.properties(),
            self._none,
        )
        fields_by_id = {_PROVIDER: self._some(provider)}
        properties = {MARK: owner or self.owner}
        self._put(
            published_name,
            self._kinds.EXTERNAL(),
            storage,
            schema,
            comment,
            properties,
            fields_by_id,
        )

    def put_view(
        self,
        published_name: PublishedName,
        text: str,
        schema: StructType,
        comment: str | None,
        *,
        temporary_views: Sequence[str] = (),
        functions: Sequence[str] = (),
        owner: str | None = None,
    ) -> None:
        """Make a view of Spark SQL, which is not analysed before it is read.

        Types in `schema` may be estimates: Spark corrects them by the query (WITH SCHEMA TYPE EVOLUTION).
        `temporary_views` are the global temporary views, `functions` the session's, that the text names. `owner` is as
        in `put_table`.
        """
        names = {
            f"view.query.out.col.{index}": name for index, name in enumerate(schema.fieldNames())
        }
        properties = {
            "view.schemaMode": "TYPE EVOLUTION",
            # a view of ours may read a table by its path where its reader may not (`penstock serve`)
            "view.sqlConfig.spark.sql.runSQLOnFiles": "true",
            "view.catalogAndNamespace.numParts": "2",
            "view.catalogAndNamespace.part.0": "spark_catalog",
            "view.catalogAndNamespace.part.1": published_name.database,
            "view.query.out.numCols": str(len(names)),
            "view.referredTempViewNames": json.dumps([["global_temp", n] for n in temporary_views]),
            "view.referredTempFunctionsNames": json.dumps(list(functions)),
            **names,
            MARK: owner or self.owner,
        }
        fields_by_id = {_VIEW_TEXT: self._some(text), _VIEW_ORIGINAL: self._some(text)}
        self._put(
            published_name,
            self._kinds.VIEW(),
            self._storage,
            schema,
            comment,
            properties,
            fields_by_id,
        )

    def drop(self, published_name: PublishedName, *, whoever: bool = False) -> None:
        """Remove an entry if it is there and was put here, or by `whoever`; what it names stays."""
        name = self._name(published_name.name, self._some(published_name.database))
        if self._catalog.tableExists(name) and (
            whoever or self.owner_of(published_name) == self.owner
        ):
            self._catalog.dropTable(name, True, False)

    def _put(  # noqa: PLR0917  the fields of an entry, in Spark's order
        self,
        published_name: PublishedName,
        kind: Any,
        storage: Any,
        schema: StructType,
        comment: str | None,
        properties: Mapping[str, str],
        fields_by_id: Mapping[int, Any],
    ) -> None:
        fields = self._defaults | dict(fields_by_id)
        # as one text: Java would be asked to take each pair
        text = json.dumps(dict(properties))
        fields[_PROPERTIES] = self._maps.toScalaMap(self._json.readValue(text, self._map_class))
        if comment is not None:
            fields[_COMMENT] = self._some(comment)
        entry = self._entry(
            self._name(published_name.name, self._some(published_name.database)),
            kind,
            storage,
            self._schema.fromJson(schema.json()),
            *(fields[number] for number in sorted(fields)),
        )
        self._catalog.createTable(entry, False, False)

    def _object(self, name: str) -> Any:
        """Return a Scala object (a class's companion)."""
        return self._jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)


class PublishedNames:
    """The names in Spark's databases, as far as they were requested; Spark ignores case.

    Definitions of `default_database` go into `home`, others into a database of their own's name, which is made if need
    be. Entries whose owner begins with `family` are of a session over the same catalog, and are taken over; those of
    `lasting` are for good, whoever takes them over. Not for many threads.
    """

    def __init__(
        self,
        entries: SparkEntries,
        *,
        family: str,
        lasting: str,
        home: str,
        default_database: str,
    ) -> None:
        self._entries = entries
        self._family = family
        self._lasting = lasting
        self._home = home
        self._default = default_database
        self._made: set[str] = set()
        self._for_good: set[PublishedName] = set()
        self._known: dict[str, set[str]] = {}

    def find(
        self, identifier: Identifier, published: Mapping[Identifier, PublishedName]
    ) -> PublishedName:
        """Find the name for a definition beside those `published`. Raises ObjectExistsError where it is taken."""
        home = identifier.database == self._default
        database = self._home if home else identifier.database
        published_name = PublishedName(database=database, name=identifier.name)
        if database == "global_temp" or (not home and database.lower() == self._home.lower()):
            raise ObjectExistsError(f"Spark's database {quoted(database)} is for other tables")
        if not home and self._entries.create_database(database):
            self._made.add(database)
        if identifier.name.lower() in self._names_in(database):
            owner = self._entries.owner_of(published_name)
            ours = owner is not None and owner.startswith(self._family)
            if not ours or _has(published, published_name):
                raise ObjectExistsError(
                    f"Spark has a table {published_name} already, which stays as it is"
                )
            if owner == self._lasting:
                self._for_good.add(published_name)
            self._entries.drop(published_name, whoever=True)
        return published_name

    def is_for_good(self, published_name: PublishedName) -> bool:
        """Return whether a name that was found is published permanently."""
        return published_name in self._for_good

    def take(self, published_name: PublishedName) -> None:
        """Add a name to the existing ones."""
        self._names_in(published_name.database).add(published_name.name.lower())

    def release(self, published_name: PublishedName) -> None:
        """Count a name among those that are free."""
        self._names_in(published_name.database).discard(published_name.name.lower())

    def forget(self) -> None:
        """Forget the names, to ask Spark again."""
        self._known.clear()

    def close(self) -> None:
        """Remove the databases that were made here, unless they have entries of others."""
        for database in self._made:
            self._entries.drop_database(database)

    def _names_in(self, database: str) -> set[str]:
        key = database.lower()
        if key not in self._known:
            self._known[key] = set(self._entries.names(database))
        return self._known[key]


def _has(published: Mapping[Identifier, PublishedName], published_name: PublishedName) -> bool:
    """Return whether the name is that of another definition."""
    wanted = str(published_name).lower()
    return any(str(other).lower() == wanted for other in published.values())
