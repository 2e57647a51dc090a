"""What `penstock run` or `penstock plan` was asked for, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.sql.cli.progress import ProgressMode
from penstock.sql.cli.report import OutputFormat
from penstock.sql.cli.script_input import ScriptInput
from penstock.sql.error_formats import ErrorFormat

__all__ = ["RunOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run, project file and environment taken in; `available_now` None leaves it to the tables.

    `dry_run` shows what would run; `from_scratch` sets checkpoints aside before it runs. `errors` is the shape of
    what fails while it runs.
    """

    script: ScriptInput
    spark_conf: Mapping[str, str]
    master: str | None
    available_now: bool | None
    dry_run: bool
    from_scratch: bool
    output: OutputFormat
    progress: ProgressMode | None
    verbose: bool
    errors: ErrorFormat
