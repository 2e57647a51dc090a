"""What a filesystem table's options say about writing, checked: each is acted on, or refused when it is set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.catalog.errors import OptionError, UnsupportedError
from penstock.catalog.options import Option, Resolved
from penstock.connector.filesystem import options as o

__all__ = ["SinkOptions", "read_sink_options"]

_HIDDEN = ("_", ".")
_BATCH_ENDS_FILES = (
    "a file ends with its micro-batch: leave the option out, bound files with "
    f"'{o.MAX_ROWS_PER_FILE.key}', and batches by SET 'execution.checkpointing.interval' or the "
    "source's read limit"
)
_ONLY_PROCESS_TIME = (
    "'process-time' without a delay works: a folder's success file is written with each batch that "
    "adds to the folder"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """How files are written. `success_file` is None where folders are not committed."""

    parallelism: int | None = None
    max_rows_per_file: int | None = None
    shuffle_by_partition: bool = False
    success_file: str | None = None


def read_sink_options(resolved: Resolved, *, partitioned: bool, owner: str) -> SinkOptions:
    """Read them. Raises OptionError, and UnsupportedError for what is not done here."""
    _refuse_set(resolved, (o.FILE_SIZE, *o.ROLLING_TIMES), owner, _BATCH_ENDS_FILES)
    _refuse_set(resolved, o.PARTITION_TIME, owner, _ONLY_PROCESS_TIME)
    _refuse_set(resolved, o.COMMIT_CLASS, owner, "use the policy 'success-file'")
    compacting = "write fewer files: 'sink.parallelism', 'sink.shuffle-by-partition.enable', longer batches; or use "
    compacting += "a 'delta' table, which OPTIMIZE compacts"
    _refuse_set(resolved, (o.COMPACTION_SIZE,), owner, compacting)
    if resolved.get(o.AUTO_COMPACTION):
        raise _unsupported(owner, f"'{o.AUTO_COMPACTION.key}' = 'true'", compacting)
    if resolved.get(o.COMMIT_TRIGGER) != "process-time":
        trigger = f"'{o.COMMIT_TRIGGER.key}' = 'partition-time'"
        raise _unsupported(owner, trigger, _ONLY_PROCESS_TIME)
    if resolved.get(o.COMMIT_DELAY):
        raise _unsupported(owner, f"'{o.COMMIT_DELAY.key}' above 0", _ONLY_PROCESS_TIME)
    return SinkOptions(
        parallelism=resolved.at_least_one(o.SINK_PARALLELISM, owner=owner),
        max_rows_per_file=resolved.at_least_one(o.MAX_ROWS_PER_FILE, owner=owner),
        shuffle_by_partition=resolved.get(o.SHUFFLE_BY_PARTITION),
        success_file=_success_file(resolved, partitioned=partitioned, owner=owner),
    )


def _success_file(resolved: Resolved, *, partitioned: bool, owner: str) -> str | None:
    kinds = resolved.get(o.COMMIT_POLICY)
    if kinds is None:
        return None
    for kind in (each.strip() for each in kinds.split(",")):
        if kind in ("metastore", "custom"):
            raise _unsupported(
                owner, f"the commit policy '{kind}'", "use the policy 'success-file'"
            )
        if kind != "success-file":
            raise OptionError(
                f"{owner}: option '{o.COMMIT_POLICY.key}' = '{kinds}' names no policy",
                hint=o.COMMIT_POLICY.doc,
            )
    if not partitioned:
        raise OptionError(
            f"{owner}: option '{o.COMMIT_POLICY.key}' is for folders, and the table is not PARTITIONED BY any column"
        )
    name = resolved.get(o.SUCCESS_FILE)
    if not name.startswith(_HIDDEN) or "/" in name:
        raise OptionError(
            f"{owner}: option '{o.SUCCESS_FILE.key}' = '{name}' would be read as one of the table's files",
            hint="its name begins with '_' or '.', and has no '/'",
        )
    return name


def _refuse_set(
    resolved: Resolved, options: Iterable[Option[Any]], owner: str, instead: str
) -> None:
    for option in options:
        if resolved.is_set(option):
            raise _unsupported(owner, f"'{option.key}'", instead)


def _unsupported(owner: str, what: str, instead: str) -> UnsupportedError:
    return UnsupportedError(f"{owner}: {what} is not supported when writing", hint=instead)
