"""Spark's own catalog as an `ExternalCatalog`: its session catalog, a Hive metastore, or another by name.

Delta tables become tables of the connector `delta` at their location; Spark itself reads and appends to the
others. Spark's temporary views belong to no database, and are not listed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.catalog.definitions.federated import NotReachedError
from penstock.catalog.errors import ConfigError
from penstock.catalog.model.identifier import Identifier, quoted
from penstock.catalog.model.namespaces import SPARK_NAME, CatalogDescriptor
from penstock.catalog.model.table import Schema, Table
from penstock.connector.capabilities import CatalogAccess
from penstock.connector.registry import options_of_provider
from penstock.connector.spark_catalog.json_types import physical_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # noqa: TC004 - the catalog is made where there is no Spark


_SESSION = "spark_catalog"
_DETAILS = "# Detailed Table Information"
_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "NO_SUCH_NAMESPACE", "NO_SUCH_TABLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCatalog:
    """What the catalog of `descriptor` holds. `spark` gives the session, starting it if need be; None: not here.

    `offline`: no server is asked, and every method raises NotReachedError.
    """

    descriptor: CatalogDescriptor
    spark: Callable[[], SparkSession] | None
    offline: bool = False

    @classmethod
    def of(cls, descriptor: CatalogDescriptor, access: CatalogAccess) -> SparkCatalog:
        """Make the catalog of a descriptor (MakeExternalCatalog)."""
        return cls(descriptor=descriptor, spark=access.spark, offline=access.offline)

    def check(self) -> None:
        """See that Spark has the catalog. Raises ConfigError."""
        self.databases()

    def databases(self) -> Sequence[str]:
        """List its databases; of a catalog with namespaces inside of others those at the top."""
        with self._asked() as spark:
            rows = spark.sql(f"SHOW NAMESPACES IN {_quoted(self._name)}").collect()
        return sorted(str(row[0]).strip("`") for row in rows)

    def tables(self, database: str) -> Sequence[str]:
        """List the tables and views of a database."""
        found: list[str] = []
        with self._asked(missing_ok=True) as spark:
            rows = spark.sql(f"SHOW TABLES IN {_quoted(self._name, database)}").collect()
            found += (str(row["tableName"]) for row in rows if not row["isTemporary"])
        return sorted(found)

    def find(self, identifier: Identifier) -> Table | None:
        """Return a table as a definition. Raises UnsupportedError for a type that we have not."""
        name = _quoted(self._name, identifier.database, identifier.name)
        found: list[Table] = []
        with self._asked(missing_ok=True) as spark:
            schema = json.loads(spark.table(name).schema.json())
            described = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
            rows = [(str(row["col_name"]), str(row["data_type"] or "")) for row in described]
            details = _details(rows)
            table = Table(
                identifier=identifier,
                schema=Schema(columns=physical_columns(schema, owner=f"Spark's table {name}")),
                options=_options(name, details),
                partition_keys=_partition_keys(rows),
                comment=details.get("Comment") or None,
            )
            found.append(table)
        return found[0] if found else None  # none where the block ended before

    @property
    def _name(self) -> str:
        return self.descriptor.resolved.get(SPARK_NAME)

    @contextmanager
    def _asked(self, missing_ok: bool = False) -> Iterator[SparkSession]:
        """Ask Spark; with `missing_ok` the block ends at what is not there. Raises ConfigError, NotReachedError."""
        if self.offline or self.spark is None:
            kind = NotReachedError if self.offline else ConfigError
            raise kind(
                f"the catalog {self.descriptor.name!r} is Spark's, which is not started here",
                hint="`penstock validate --level connect` starts it, `penstock run` and the shell do too",
            )
        from pyspark.errors import PySparkException

        try:
            yield self.spark()
        except PySparkException as error:
            condition = error.getCondition() or ""
            if missing_ok and condition.startswith(_MISSING):
                return
            text = " ".join(str(error.getMessage() or error).split())
            raise ConfigError(
                f"catalog {self.descriptor.name}: Spark's catalog {self._name!r} cannot be read: {text}",
                hint=f"check the option '{SPARK_NAME.key}', and Spark's settings spark.sql.catalog.{self._name}"
                if self._name != _SESSION
                else "check Spark's settings of its metastore",
            ) from error


def _details(rows: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Find what DESCRIBE says below its columns."""
    heads = [index for index, (name, _) in enumerate(rows) if name == _DETAILS]
    return dict(rows[heads[-1] + 1 :]) if heads else {}


def _partition_keys(rows: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    names = [name for name, _ in rows]
    for index, name in enumerate(names):
        if name == "# Partition Information" and names[index + 1 : index + 2] == ["# col_name"]:
            rest = names[index + 2 :]
            end = next((i for i, each in enumerate(rest) if not each or each[0] == "#"), len(rest))
            return tuple(each.strip("`") for each in rest[:end])
    return ()


def _options(name: str, details: dict[str, str]) -> tuple[tuple[str, str], ...]:
    provider, location = details.get("Provider", ""), details.get("Location", "")
    options = options_of_provider(provider, location) if location else None
    if options is None:
        options = {"connector": "spark", "table-name": name}
    return tuple(options.items())


def _quoted(*parts: str) -> str:
    return ".".join(quoted(part) for part in parts)
