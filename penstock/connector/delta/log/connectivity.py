"""Check that a Delta table exists, by its log; reads no row."""

from __future__ import annotations

from penstock.catalog.errors import UnknownObjectError
from penstock.connector.capabilities import TableAccess
from penstock.connector.delta.log.schema import read_head
from penstock.connector.storage import open_folder
from penstock.connector.urls import is_remote

__all__ = ["check_log"]


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
