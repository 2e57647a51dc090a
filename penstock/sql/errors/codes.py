"""The table of error codes: what each means and what to do. `docs/errors.md` and `penstock errors` are made of it.

A code never changes its meaning and is never used again; its first digit is its family. The classes are drawn in
`penstock/catalog/errors.py`, each with its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.catalog import errors as kinds
from penstock.catalog.errors import PenstockError

__all__ = ["ERROR_CODES", "FAMILIES", "ErrorCode", "error_page"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCode:
    """What stands behind a code: the class, when it comes, and what mends it."""

    kind: type[PenstockError]
    meaning: str
    mend: str

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
    "7": "State, and who owns it",
    "8": "While a statement runs",
    "9": "Anything else",
}
"""Titles of the families, by a code's first digit."""

ERROR_CODES: tuple[ErrorCode, ...] = (
    ErrorCode(
        kind=kinds.SqlSyntaxError,
        meaning="The text is not Flink SQL. The caret stands under the word that does not fit, a misspelt keyword "
        "even where the parser took it for a name first.",
        mend="Follow the help line. A name that is a keyword is written in `backticks`, a text in 'single quotes'.",
    ),
    ErrorCode(
        kind=kinds.TemplateError,
        meaning="The Jinja template cannot be rendered: a variable, macro or file is missing, or the template asks "
        "for something that the sandbox keeps from it.",
        mend="Supply the variable (`--var`, `--vars-file`, `[variables]` in penstock.toml) or give it a default. "
        "`penstock render FILE` shows what a template comes to.",
    ),
    ErrorCode(
        kind=kinds.UnknownObjectError,
        meaning="There is no table, view, column, function or database of that name.",
        mend="Look for the nearest name in the help line; `penstock catalog ls` lists what is defined.",
    ),
    ErrorCode(
        kind=kinds.ObjectExistsError,
        meaning="The name that a statement is to define is taken.",
        mend="Write CREATE ... IF NOT EXISTS, drop what is there, or choose another name.",
    ),
    ErrorCode(
        kind=kinds.DefinitionError,
        meaning="A definition or a query contradicts itself, or what it is used for: types that do not fit, a key "
        "on a column that is not there, columns that a sink does not have.",
        mend="Change the definition where the caret stands.",
    ),
    ErrorCode(
        kind=kinds.OptionError,
        meaning="An option of a table, or a SET key, is unknown, missing or malformed.",
        mend="The help line names the nearest option, or the values that are allowed.",
    ),
    ErrorCode(
        kind=kinds.ConfigError,
        meaning="The project file, an environment variable, a file on the command line or the installation is wrong.",
        mend="Mend it where the message points; `penstock doctor` looks at the installation.",
    ),
    ErrorCode(
        kind=kinds.UnsupportedError,
        meaning="Flink has it and Penstock has not, at least not in this place. Nothing was started.",
        mend="The help line says what to write instead; docs/flink-compatibility.md lists what runs.",
    ),
    ErrorCode(
        kind=kinds.CatalogError,
        meaning="The store of the catalog cannot be opened or read.",
        mend="Check `--catalog`, `[catalog] url` in penstock.toml, and the rights on the file or database.",
    ),
    ErrorCode(
        kind=kinds.BrokerUnavailableError,
        meaning="A broker does not answer in time.",
        mend="Check the address, the network and the security options; `penstock doctor` asks the brokers.",
    ),
    ErrorCode(
        kind=kinds.StateMismatchError,
        meaning="A checkpoint, or a target, was made by something else than the query that is to go on from it.",
        mend="Undo the change, or begin anew with `--from-scratch`; `penstock plan` shows what would happen.",
    ),
    ErrorCode(
        kind=kinds.PipelineLockedError,
        meaning="Another runner holds the pipeline.",
        mend="Stop the other one, or wait until its lease runs out.",
    ),
    ErrorCode(
        kind=kinds.DataLossError,
        meaning="Records were deleted before they were read.",
        mend="Start where there are records, or let the source pass over what is gone by its option.",
    ),
    ErrorCode(
        kind=kinds.TopicChangedError,
        meaning="A topic was deleted, or deleted and made again, since the checkpoint was written.",
        mend="Begin anew with `--from-scratch` if the new topic is the one that is meant.",
    ),
    ErrorCode(
        kind=kinds.BadRecordError,
        meaning="A record cannot be decoded.",
        mend="Mend the producer or the schema, or let bad records be skipped or kept (docs/dead-letters.md).",
    ),
    ErrorCode(
        kind=kinds.SinkError,
        meaning="The target refused rows.",
        mend="The message carries the target's own words.",
    ),
    ErrorCode(
        kind=kinds.QueryFailedError,
        meaning="A query ended for another reason.",
        mend="Spark's log, which the message names, has the whole story.",
    ),
    ErrorCode(
        kind=kinds.RunError,
        meaning="A statement failed while it ran.",
        mend="The message says what happened.",
    ),
    ErrorCode(
        kind=kinds.InputError,
        meaning="What was given is wrong, in a way that has no family of its own. Nothing was started.",
        mend="The message says what and where.",
    ),
    ErrorCode(
        kind=kinds.PenstockError,
        meaning="Something else went wrong.",
        mend="If it is a fault in Penstock, `--verbose` shows where.",
    ),
)
"""Every code, by family."""


def error_page(codes: Sequence[ErrorCode] = ERROR_CODES) -> str:
    """Write the table as Markdown, which is what docs/errors.md holds."""
    lines = [
        "# Error codes",
        "",
        "Made by `penstock errors --markdown` from the table in `penstock/sql/errors/codes.py`.",
        "A code keeps its meaning for ever; programs may rely on it, where messages may be reworded.",
        "Exit status 2: the input was wrong and nothing was started. 1: a statement failed while it ran.",
    ]
    for digit, title in FAMILIES.items():
        lines += ["", f"## {digit}xxx {title}"]
        for one in codes:
            if one.code[4] == digit:
                name = one.kind.__name__
                lines += ["", f"### {one.code} {name}", "", one.meaning, "", f"*Mend:* {one.mend}"]
    return "\n".join(lines) + "\n"
