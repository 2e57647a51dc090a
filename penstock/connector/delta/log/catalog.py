"""A folder of Delta tables as a catalog (`ExternalCatalog`): what has a Delta log is a table, other subfolders are
databases. Read without an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import FileType

from penstock.catalog.definitions.federated import NotReachedError, folder_options, table_path
from penstock.catalog.errors import ConfigError, DefinitionError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import PATH, ROOT_DATABASE, CatalogDescriptor
from penstock.catalog.model.table import Schema, Table
from penstock.connector.delta.log.schema import is_delta_table, read_logged
from penstock.connector.external_catalog import CatalogAccess
from penstock.connector.storage import Folder, open_folder
from penstock.connector.urls import is_remote, resolve_path

__all__ = ["DeltaCatalog"]

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
        place = resolve_path(self.descriptor.resolved.get(PATH), self.project)
        if self.offline and is_remote(place):
            raise NotReachedError(f"the catalog {name!r} is in an object store, which is not asked")
        root = open_folder(place, hint="a folder of this machine, or an URL of s3, gs, abfss, hdfs")
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
