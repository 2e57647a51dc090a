"""What a statement is called in summaries and JSON: its kind (CREATE TABLE, INSERT, ...) and what it is about."""

from __future__ import annotations

import re

from penstock.sql.run.progress import short_name
from penstock.sql.statements import (
    CreateTable,
    CreateView,
    Describe,
    DropTable,
    DropView,
    Explain,
    InsertInto,
    ResetOption,
    SetOption,
    ShowCreate,
    Statement,
    StatementSet,
)

__all__ = ["kind_of", "subject_of"]


def kind_of(statement: Statement) -> str:
    """Name a statement's kind; where nothing else is said, the words of its class."""
    match statement:
        case InsertInto():
            return "INSERT"
        case SetOption():
            return "SET"
        case ResetOption():
            return "RESET"
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type(statement).__name__).upper()


def subject_of(statement: Statement) -> str | None:
    """Name the table, view or key that a statement is about."""
    match statement:
        case CreateTable():
            return short_name(statement.table.identifier)
        case CreateView():
            return short_name(statement.view.identifier)
        case InsertInto():
            return short_name(statement.target)
        case StatementSet():
            return ", ".join(short_name(insert.target) for insert in statement.inserts)
        case Explain():
            return (
                f"{kind_of(statement.statement)} {subject_of(statement.statement) or ''}".rstrip()
            )
        case DropTable() | DropView() | ShowCreate() | Describe():
            return short_name(statement.identifier)
        case SetOption() | ResetOption():
            return statement.key
    return None
