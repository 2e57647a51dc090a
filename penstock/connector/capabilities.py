"""What connectors may do beside reading and writing: protocols, and `Capabilities`, which `Connector` inherits.

Row-level changes (overwrite, truncate, update, delete) are protocols here, too, and what an external catalog may ask
of the session that opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from penstock.catalog.definitions.federated import ExternalCatalog, Seal
from penstock.catalog.model.namespaces import CatalogDescriptor
from penstock.catalog.model.types import LogicalType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession  # noqa: TC004 - loaded by checks without a JVM

    from penstock.catalog.errors import PenstockError
    from penstock.catalog.model.table import Table
    from penstock.catalog.options.option import Option, PrefixOption
    from penstock.connector.source.records import RawRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataKey:
    """Metadata of records, as the column `METADATA FROM 'key'`. `writable`: a sink takes it, too."""

    key: str
    type: LogicalType
    doc: str
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The place of a table's rows, named as OpenLineage names datasets: a system, and a name in it. No secret."""

    namespace: str
    name: str


class TableEditor(Protocol):
    """Replaces the rows of a table, or of some of its partitions."""

    def overwrite(
        self, frame: DataFrame, partition: Mapping[str, str], *, whole: bool = False
    ) -> None:
        """Replace all rows by those of `frame`, atomically.

        Of a partitioned table the partitions that `frame` has rows for are replaced, others stay, unless `whole`; with
        `partition` (values of partition columns as text) those that it names, even where `frame` is empty.
        """

    def truncate(self, spark: SparkSession) -> None:
        """Remove every row; the table stays."""

    def partitions(self, spark: SparkSession) -> Sequence[Mapping[str, str | None]]:
        """List the partitions that there are: values of the partition columns as text, None for NULL."""

    @property
    def row_level(self) -> RowLevelEditor | None:
        """Return what changes rows in place; None where rows are only replaced."""
        return None

    def under_lease(
        self,
        lost_lease: Callable[[], PenstockError | None],  # noqa: ARG002  of the contract
    ) -> Self:
        """Return the same editor, which asks `lost_lease` before it changes the target (`Sink.under_lease`)."""
        return self


class RowLevelEditor(TableEditor, Protocol):
    """Changes rows in place. Conditions and values are Spark SQL over the columns, which `alias` may qualify."""

    def update(
        self, spark: SparkSession, alias: str, values: Mapping[str, str], condition: str | None
    ) -> int:
        """Set columns of the rows that fulfil `condition` (None: of all). Returns the number of rows."""

    def delete(self, spark: SparkSession, alias: str, condition: str | None) -> int:
        """Remove the rows that fulfil `condition` (None: all). Returns the number of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogAccess:
    """Relative paths are relative to `project`; `seal` gives secrets.

    `spark` gives the session, starting it if need be; None: Spark must not be asked. `offline`: no server is asked,
    but folders of this machine are read.
    """

    project: Path
    seal: Seal
    spark: Callable[[], SparkSession] | None
    offline: bool


MakeExternalCatalog = Callable[[CatalogDescriptor, CatalogAccess], ExternalCatalog]
"""Makes the catalog of a descriptor; opens nothing yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """What statements do with a table; neither is a table that they only define."""

    read: bool
    written: bool


ConnectivityCheck = Callable[[TableAccess], str]
"""Asks a table's external system whether it is there, and returns what was found, for people.

Reads no row and writes nothing; may wait as long as a run would. Raises the error that a run would meet.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRelation:
    """A table as plain Spark SQL reads it: `text` is a relation with the stored columns.

    `provider` is Spark's name of the format of the folder `location`, where an entry of Spark's catalog can name the
    table without a query; None where only the text reads it.
    """

    text: str
    location: str
    provider: str | None = None


class Publishable(Protocol):
    """A table that plain Spark SQL reads by itself."""

    def relation(self, spark: SparkSession) -> SparkRelation | None:
        """Return how; None where nothing was written yet. Raises UnsupportedError."""


class Upserting(Protocol):
    """A sink that may replace the rows of a key in several ways."""

    def describe_upserts(self) -> str | None:
        """Say how rows are replaced, and what decides that; None where there is one way.

        By the target as it is now, or as it is declared where it is not there yet. No engine.
        """
        return None


class ScanModes(Protocol):
    """Where the scans of a connector's tables begin and end: tables that are read from chosen positions."""

    def with_end(self, table: Table) -> Table:
        """Return a table that ends with what it holds when it is read; one that has an end keeps it."""

    def stopping_at(self, table: Table, positions: Mapping[str, int]) -> Table:
        """Return a table that ends at these positions, by split."""

    def starting_at(self, table: Table, mode: str) -> Table | None:
        """Return a table with a startup mode ('earliest-offset', 'latest-offset'); None where it cannot be chosen."""


class LocalStore(Protocol):
    """Keeps the rows of a table where a test wants them, so that its statements write and read them."""

    def moved(self, table: Table, *, folder: Path, name: str) -> Table:
        """Return the table with its rows in `folder`, or under `name` in this process."""

    def rows(self, table: Table, spark: SparkSession) -> list[dict[str, Any]]:
        """Return all rows of a table that was moved; none where nothing was written."""


class TopicAccess(Protocol):
    """The topics of the cluster that a table is read from, for dead letters. Raises BrokerUnavailableError."""

    def exists(self, topic: str) -> bool:
        """Return whether the cluster has the topic."""

    def check(self, topics: Sequence[str]) -> None:
        """Check that topics exist. Raises UnknownObjectError."""

    def replay(
        self, records: Iterable[RawRecord], *, name: str, target: str | None, marked: str
    ) -> int | None:
        """Write records exactly once, to `target` or each to its own topic and partition; return how many.

        None when an earlier attempt under the same `name` wrote them, which a marker in the topic `marked` shows.
        """


class Capabilities(Protocol):
    """What a connector can do beside reading and writing, with the defaults of one that cannot."""

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables; none: values are compared as text, and not completed."""
        return ()

    @property
    def own_formats(self) -> Mapping[str, Sequence[Option[Any]]]:
        """Return the options of formats that only this connector has."""
        return {}

    @property
    def metadata(self) -> Sequence[MetadataKey]:
        """Return the metadata of its records, beside that of formats; none by default."""
        return ()

    def editor(self, table: Table) -> TableEditor | None:  # noqa: ARG002  of the contract, as those below
        """Describe editing `table`; None for a kind of table that cannot be edited.

        Raises UnsupportedError when this one cannot be.
        """
        return None

    def folder(self, table: Table) -> str | None:  # noqa: ARG002
        """Return the folder that holds the table's rows, a path or a URL; None for a table elsewhere."""
        return None

    def datasets(self, table: Table) -> Sequence[Dataset]:  # noqa: ARG002
        """Return the places of the table's rows; none of one in a folder, which `folder` tells, or that keeps none."""
        return ()

    def first_rows(self, table: Table, limit: int) -> pa.Table | None:  # noqa: ARG002
        """Read up to `limit` rows as they are stored, in seconds; None for a table that is read by splits or by Spark.

        Raises UnsupportedError for one that has what only an engine reads, StateMismatchError for a damaged one.
        """
        return None

    def stored_version(self, table: Table) -> int | None:  # noqa: ARG002
        """Read the newest version of a table in a folder of this machine; None for one without versions."""
        return None

    def connectivity_check(self, table: Table) -> ConnectivityCheck | None:  # noqa: ARG002
        """Return what asks the external system of `table`; None leaves it to the splits of its source."""
        return None

    def publishable(self, table: Table) -> Publishable | None:  # noqa: ARG002
        """Return how plain Spark SQL reads `table` by itself; None where its source reads it."""
        return None

    def options_of_provider(
        self,
        provider: str,  # noqa: ARG002
        location: str,  # noqa: ARG002
    ) -> Mapping[str, str] | None:
        """Return the options of a table that one of Spark's catalogs holds in the folder `location`, where this
        connector reads what Spark's `provider` writes; None leaves the table to Spark.
        """
        return None

    def topic_access(self, table: Table) -> TopicAccess | None:  # noqa: ARG002
        """Return access to the topics beside that of `table`; None for a table that is no topic."""
        return None

    @property
    def scan_modes(self) -> ScanModes | None:
        """Return how scans of its tables are given another begin or end; None where they have none."""
        return None

    @property
    def local_store(self) -> LocalStore | None:
        """Return how a test keeps the rows of its tables; None where rows are only captured."""
        return None
