"""The table of error codes: what each means and how to fix it. Source of `docs/errors.md` and `penstock errors`.

A code never changes its meaning and is never used again; its first digit is its family. The classes are drawn in
`penstock/catalog/errors.py`, each with its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.catalog import errors as kinds
from penstock.catalog.errors import PenstockError


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCode:
    """An error code: its class, what it means, and how to fix the error."""

    kind: type[PenstockError]
    meaning: str
    fix: str

    @property
    def code(self) -> str:
        """The code, such as PEN-1001."""
        return self.kind.code


FAMILIES: dict[str, str] = {
    "1": "Text: SQL and templates",
    "2": "Names",
    "3": "Definitions and types",
    "4": "Options and configuration",
    "5": "Not supported",
    "6": "Connections",
    "7": "State and its owner",
    "8": "While a statement runs",
    "9": "Anything else",
}
"""Titles of the families, by a code's first digit."""

ERROR_CODES: tuple[ErrorCode, ...] = (
    ErrorCode(
        kind=kinds.SqlSyntaxError,
        meaning="The text is not Flink SQL. The caret marks the word that does not fit, also a misspelt keyword "
        "that the parser first read as a name.",
        fix="Follow the help line. A name that is a keyword is written in `backticks`, a text in 'single quotes'.",
    ),
    ErrorCode(
        kind=kinds.TemplateError,
        meaning="The Jinja template cannot be rendered: a variable, macro or file is missing, or the template uses "
        "something that the sandbox does not allow.",
        fix="Supply the variable (`--var`, `--vars-file`, `[variables]` in penstock.toml) or set a default. "
        "`penstock render FILE` shows the rendered text.",
    ),
    ErrorCode(
        kind=kinds.UnknownObjectError,
        meaning="There is no table, view, column, function or database of that name.",
        fix="Look for the nearest name in the help line; `penstock catalog ls` lists what is defined.",
    ),
    ErrorCode(
        kind=kinds.ObjectExistsError,
        meaning="The name that a statement is to define is taken.",
        fix="Write CREATE ... IF NOT EXISTS, drop the existing object, or choose another name.",
    ),
    ErrorCode(
        kind=kinds.DefinitionError,
        meaning="A definition or a query contradicts itself or its use: types that do not fit, a key "
        "on a missing column, columns that a sink does not have.",
        fix="Change the definition at the caret.",
    ),
    ErrorCode(
        kind=kinds.OptionError,
        meaning="An option of a table, or a SET key, is unknown, missing or malformed.",
        fix="The help line names the nearest option, or the allowed values.",
    ),
    ErrorCode(
        kind=kinds.ConfigError,
        meaning="The project file, an environment variable, a file on the command line or the installation is wrong.",
        fix="Correct it where the message points; `penstock doctor` checks the installation.",
    ),
    ErrorCode(
        kind=kinds.UnsupportedError,
        meaning="Flink supports it and Penstock does not, at least not in this context. Nothing was started.",
        fix="The help line says what to write instead; docs/flink-compatibility.md lists what runs.",
    ),
    ErrorCode(
        kind=kinds.CatalogError,
        meaning="The store of the catalog cannot be opened or read.",
        fix="Check `--catalog`, `[catalog] url` in penstock.toml, and the rights on the file or database.",
    ),
    ErrorCode(
        kind=kinds.BrokerUnavailableError,
        meaning="A broker does not answer in time.",
        fix="Check the address, the network and the security options; `penstock doctor` contacts the brokers.",
    ),
    ErrorCode(
        kind=kinds.StateMismatchError,
        meaning="A checkpoint, or a target, does not belong to the query that is to resume from it.",
        fix="Undo the change, or start again with `--from-scratch`; `penstock plan` shows what would happen.",
    ),
    ErrorCode(
        kind=kinds.PipelineLockedError,
        meaning="Another runner holds the pipeline.",
        fix="Stop the other one, or wait until its lease runs out.",
    ),
    ErrorCode(
        kind=kinds.DataLossError,
        meaning="Records were deleted before they were read.",
        fix="Start where there are records, or let the source skip lost records by its option.",
    ),
    ErrorCode(
        kind=kinds.TopicChangedError,
        meaning="A topic was deleted, or deleted and created again, since the checkpoint was written.",
        fix="Start again with `--from-scratch` if the new topic is intended.",
    ),
    ErrorCode(
        kind=kinds.BadRecordError,
        meaning="A record cannot be decoded.",
        fix="Fix the producer or the schema, or let bad records be skipped or kept (docs/dead-letters.md).",
    ),
    ErrorCode(
        kind=kinds.SinkError,
        meaning="The target refused rows.",
        fix="The message contains the target's own error.",
    ),
    ErrorCode(
        kind=kinds.QueryFailedError,
        meaning="A query ended for another reason.",
        fix="The message names Spark's log, which has the details.",
    ),
    ErrorCode(
        kind=kinds.RunError,
        meaning="A statement failed while it ran.",
        fix="The message says what happened.",
    ),
    ErrorCode(
        kind=kinds.InputError,
        meaning="The input is wrong in a way that no other family covers. Nothing was started.",
        fix="The message says what and where.",
    ),
    ErrorCode(
        kind=kinds.PenstockError,
        meaning="Something else went wrong.",
        fix="If it is a bug in Penstock, `--verbose` shows where.",
    ),
)
"""Every code, by family."""


def error_page(codes: Sequence[ErrorCode] = ERROR_CODES) -> str:
    """Write the table as Markdown, which is what docs/errors.md holds."""
    lines = [
        "# Error codes",
        "",
        "Generated by `penstock errors --markdown` from the table in `penstock/sql/errors/codes.py`.",
        "A code keeps its meaning permanently; programs may rely on it, while messages may change.",
        "Exit status 2: the input was wrong and nothing was started. 1: a statement failed while it ran.",
        "3: Spark's Java process died, which `penstock up` takes for a reason to start the pipeline again.",
        "75: the same command may succeed later: the catalog does not answer or is locked, another runner holds the",
        "pipeline, or Java did not start. Nothing was started then, unless the catalog went away in the middle of the",
        "command: what it had done before stays. The systemd unit and `penstock up` start it again.",
        "`penstock up` ends with 2 where each process that failed had ended with 2, else with 1.",
        "130: stopped before the end of a bounded query, or without the end of the batch in flight:",
        "the next run does the rest.",
    ]
    for digit, title in FAMILIES.items():
        lines += ["", f"## {digit}xxx {title}"]
        for one in codes:
            if one.code[4] == digit:
                name = one.kind.__name__
                lines += ["", f"### {one.code} {name}", "", one.meaning, "", f"*Fix:* {one.fix}"]
    return "\n".join(lines) + "\n"
