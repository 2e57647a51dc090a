"""A folder of Delta tables as a catalog (`ExternalCatalog`), and single tables checked and inferred by their logs.

What has a Delta log is a table, other subfolders are databases. No row is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import FileType

from penstock.catalog.definitions.federated import NotReachedError, folder_options, table_path
from penstock.catalog.errors import ConfigError, DefinitionError, UnknownObjectError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import PATH, ROOT_DATABASE, CatalogDescriptor
from penstock.catalog.model.table import PhysicalColumn, Schema, Table
from penstock.connector.capabilities import CatalogAccess, TableAccess
from penstock.connector.delta.files.live_files import LOG
from penstock.connector.delta.log import is_delta_table, read_head, read_logged
from penstock.connector.inference.inferred_table import InferredColumn, InferredTable
from penstock.connector.storage import Folder, open_folder
from penstock.connector.urls import is_remote, resolve_path


def check_log(location: str, access: TableAccess) -> str:
    """Look at the log in a folder of this machine (a ConnectivityCheck). Raises UnknownObjectError."""
    if is_remote(location):
        return f"{location}: only Spark reaches it: not checked"
    folder = open_folder(location)
    head = read_head(folder)
    if head is not None:
        return f"{folder.path}: version {head.version}, columns {', '.join(head.columns)}"
    if access.read and not access.written:
        raise UnknownObjectError(
            f"there is no Delta table in {folder.path}",
            hint="run what writes it first, or check the option 'path'",
        )
    return f"{folder.path} is not there yet: made when rows are written"


_MAPPING = "delta.columnMapping.mode"


def infer_delta_table(path: str, location: str, *, name: str) -> InferredTable:
    """Infer the table at `location`, an absolute path or a URL, for which `path` is to be the option 'path'.

    Raises UnknownObjectError where there is none, and as `read_logged`.
    """
    folder = open_folder(location)
    found = read_logged(folder)
    if found is None:
        raise UnknownObjectError(
            f"there is no Delta table in {folder.shown}",
            hint=f"its folder would hold a folder {LOG}",
        )
    mapping = found.configuration.get(_MAPPING, "none")
    return InferredTable(
        name=name,
        columns=tuple(
            InferredColumn(column=column, remark=_remark(column)) for column in found.columns
        ),
        options=(
            ("connector", "delta"),
            ("path", path),
            *([(_MAPPING, mapping)] if mapping != "none" else []),
        ),
        partition_keys=found.partition_columns,
        comment=found.description or None,
        remarks=(
            f"The Delta table at {path}: columns, comments and partitioning as its log has them.",
        ),
    )


def _remark(column: PhysicalColumn) -> str:
    return "" if column.type.nullable else "NOT NULL in the table's own schema"


COLUMN_MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCatalog:
    """The tables below the folder of `descriptor`; a relative path is relative to `project`.

    `offline`: only folders of this machine are looked into.
    """

    descriptor: CatalogDescriptor
    project: Path
    offline: bool = False

    @classmethod
    def of(cls, descriptor: CatalogDescriptor, access: CatalogAccess) -> DeltaCatalog:
        """Make the catalog of a descriptor (MakeExternalCatalog)."""
        return cls(descriptor=descriptor, project=access.project, offline=access.offline)

    def check(self) -> None:
        """Check that the folder exists, and is no table itself. Raises ConfigError, DefinitionError."""
        root = self._root
        if is_delta_table(root):
            raise DefinitionError(
                f"catalog {self.descriptor.name}: {root.shown} is a Delta table, not a folder of tables",
                hint="name the folder above it in 'path'",
            )

    def databases(self) -> Sequence[str]:
        """List the root database, and the subfolders that are no tables."""
        root = self._root
        names = {name for name in _folders(root) if not is_delta_table(root.below(name))}
        return sorted({ROOT_DATABASE, *names})

    def tables(self, database: str) -> Sequence[str]:
        """List the folders of a database that have a Delta log. Raises DefinitionError for a name that leads out."""
        if database != ROOT_DATABASE:
            table_path(self.descriptor, Identifier(catalog="c", database=database, name="t"))
        folder = self._root if database == ROOT_DATABASE else self._root.below(database)
        return [name for name in _folders(folder) if is_delta_table(folder.below(name))]

    def find(self, identifier: Identifier) -> Table | None:
        """Return a table by its log. Raises StateMismatchError for a log that cannot be read, UnsupportedError."""
        try:
            options = folder_options(self.descriptor, identifier)
        except DefinitionError:
            return None
        below = identifier.name
        if identifier.database != ROOT_DATABASE:
            below = f"{identifier.database}/{below}"
        logged = read_logged(self._root.below(below))
        if logged is None:
            return None
        if COLUMN_MAPPING in logged.configuration:
            options[COLUMN_MAPPING] = logged.configuration[COLUMN_MAPPING]
        return Table(
            identifier=identifier,
            schema=Schema(columns=logged.columns),
            options=tuple(options.items()),
            partition_keys=logged.partition_columns,
            comment=logged.description,
        )

    @property
    def _root(self) -> Folder:
        """Return the folder. Raises ConfigError where there is none, NotReachedError for one that
        is not to be asked.
        """
        name = self.descriptor.name
        location = resolve_path(self.descriptor.resolved.get(PATH), self.project)
        if self.offline and is_remote(location):
            raise NotReachedError(f"the catalog {name!r} is in an object store, which is not asked")
        root = open_folder(
            location, hint="a folder of this machine, or an URL of s3, gs, abfss, hdfs"
        )
        try:
            is_there = bool(root.system.get_file_info(root.path).type == FileType.Directory)
        except OSError as error:
            raise ConfigError(f"catalog {name}: {root.shown} cannot be read: {error}") from error
        if not is_there:
            raise ConfigError(
                f"catalog {name}: there is no folder {root.shown}",
                hint="make it, or check the option 'path', which is relative to the project",
            )
        return root


def _folders(folder: Folder) -> list[str]:
    """List the folders in a folder, without hidden ones and those of logs."""
    return [name for name in folder.folders() if not name.startswith((".", "_"))]
