"""The connector `print`: checks a table's options and describes its sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.catalog.errors import OptionError, UnsupportedError
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import (
    BOOLEAN,
    INT,
    STRING,
    Option,
    OptionScope,
    PrefixOption,
    Resolved,
    optional,
    resolve,
)
from penstock.connector.capabilities import ConnectivityCheck
from penstock.connector.checks import check_nothing, check_written_metadata
from penstock.connector.contract import Connector, Sink, SplitSource

IDENTIFIER = Option(
    key="print-identifier",
    type=STRING,
    default="",
    doc="text that stands before each line, as in 'orders> +I[1]'",
    scope=OptionScope.SINK,
)
STANDARD_ERROR = Option(
    key="standard-error",
    type=BOOLEAN,
    default=False,
    doc="whether lines go to standard error, else to standard output",
    scope=OptionScope.SINK,
)
PARALLELISM = optional(
    INT,
    "sink.parallelism",
    "accepted without effect: one process prints",
    flink="tasks of the sink operator",
)
OPTIONS = (
    Option(
        key="connector",
        type=STRING,
        default="",
        doc="'print': rows are printed by the process that runs the query",
        required=True,
        scope=OptionScope.SINK,
    ),
    IDENTIFIER,
    STANDARD_ERROR,
    PARALLELISM,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintConnector(Connector):
    """Tables that are printed (`Connector`). `project` is not used."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "print"

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return OPTIONS

    def check(self, table: Table) -> None:
        """Check options and columns. Raises OptionError, DefinitionError."""
        _resolved(table)

    def connectivity_check(self, table: Table) -> ConnectivityCheck:  # noqa: ARG002  of the contract
        """There is nothing to ask."""
        return check_nothing

    def source(self, table: Table) -> SplitSource:
        """Nothing is there to read. Raises UnsupportedError."""
        raise UnsupportedError(
            f"table {table.identifier}: what 'print' has printed cannot be read",
            hint="SELECT from the table that the rows come from",
        )

    def sink(self, table: Table) -> Sink:
        """Describe printing."""
        from penstock.connector.print.sink import PrintSink

        options = _resolved(table)
        identifier = options.get(IDENTIFIER)
        return PrintSink(
            table=table,
            prefix=f"{identifier}> " if identifier else "",
            to_stderr=options.get(STANDARD_ERROR),
        )


def _resolved(table: Table) -> Resolved:
    owner = f"table {table.identifier}"
    options = resolve(table.option_map, OPTIONS, owner=owner)
    parallelism = options.get(PARALLELISM)
    if parallelism is not None and parallelism < 1:
        raise OptionError(f"{owner}: option '{PARALLELISM.key}' must be at least 1")
    check_written_metadata(table, "print")
    return options
