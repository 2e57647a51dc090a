"""Infer a Delta table from its log."""

from __future__ import annotations

from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.delta.log.schema import LOG, read_logged
from penstock.connector.inference.inferred_table import InferredColumn, InferredTable
from penstock.connector.storage import open_folder

__all__ = ["infer_delta_table"]

_MAPPING = "delta.columnMapping.mode"


def infer_delta_table(path: str, location: str, *, name: str) -> InferredTable:
    """Draft the table at `location`, an absolute path or a URL, for which `path` is to be the option 'path'.

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
