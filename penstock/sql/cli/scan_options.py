"""What `penstock peek` and `penstock tail` take alike: a table, and where to start reading it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["FromOption", "ScanStart", "TableArgument"]


class ScanStart(StrEnum):
    """Where reading starts, in the place of the table's own startup mode."""

    EARLIEST = "earliest"
    LATEST = "latest"


TableArgument = Annotated[
    str, typer.Argument(help="A table of the catalog. Example: `orders` or `sales.orders`")
]
FromOption = Annotated[
    ScanStart | None,
    typer.Option(
        "--from",
        envvar="PENSTOCK_FROM",
        help="Where to start, in place of the table's startup mode. Example: `--from earliest`",
        show_default=False,
    ),
]
