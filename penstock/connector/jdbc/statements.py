"""The SQL of the sink, built with SQLAlchemy: names are quoted by the dialect, values are bound. No connection.

The changes of a batch go into a temporary table in their order; the last one of each key decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Delete,
    Dialect,
    Executable,
    Insert,
    Label,
    MetaData,
    Select,
    String,
    Table,
    Update,
    and_,
    bindparam,
    column,
    delete,
    exists,
    false,
    func,
    insert,
    literal_column,
    select,
    table,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import TableClause

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.jdbc.address import Backend
from penstock.connector.spark.sink.last_batch import LastBatch

LEDGER = "penstock_ledger"
BATCH = "penstock_batch"
ORDER = "__order"
_GONE = (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)
_THERE = (RowKind.INSERT.value, RowKind.UPDATE_AFTER.value)


def ledger_table(database_schema: str | None) -> Table:
    """Describe the ledger: which batch each writer's rows in this schema go up to, written with them."""
    return Table(
        LEDGER,
        MetaData(),
        Column("application_id", String(512), primary_key=True),
        Column("batch_id", BigInteger, nullable=False),
        Column("digest", String(64), nullable=False),
        schema=database_schema,
    )


def read_ledger(ledger: Table, application_id: str) -> Select[tuple[int, str]]:
    """Read a writer's row and lock it, where the database locks rows: a second runner waits, and then sees it."""
    own = ledger.c.application_id == application_id
    return select(ledger.c.batch_id, ledger.c.digest).where(own).with_for_update()


def write_ledger(
    ledger: Table, application_id: str, batch: LastBatch, *, first: bool
) -> Insert | Update:
    """Write a writer's row. Of two runners that write a `first` row, one gets an error of its key."""
    row = {"batch_id": batch.batch_id, "digest": batch.digest}
    if first:
        return insert(ledger).values(application_id=application_id, **row)
    return update(ledger).where(ledger.c.application_id == application_id).values(row)


def enter(ledger: Table, writer: str, backend: Backend) -> Executable:
    """Write the row of a writer that writes once, unless it exists; waits for a concurrent one.

    Returns the row where it was written.
    """
    row = {"application_id": writer, "batch_id": 0, "digest": ""}
    put = _insert(ledger, backend).values(row).on_conflict_do_nothing()
    return put.returning(ledger.c.application_id)


def leave(ledger: Table, writer: str) -> Delete:
    """Remove a writer's row: its commit was answered."""
    return delete(ledger).where(ledger.c.application_id == writer)


def target_table(name: str, database_schema: str | None, columns: Sequence[str]) -> TableClause:
    """Describe the columns of the target that are written."""
    return table(name, *(column(each) for each in columns), schema=database_schema)


def create_batch(target: TableClause, dialect: Dialect) -> str:
    """Return the statement that makes the temporary table, its columns typed as the target's.

    PostgreSQL drops it with the transaction.
    """
    kind: Label[Any] = literal_column("CAST(0 AS SMALLINT)").label(ROW_KIND)
    order: Label[Any] = literal_column("CAST(0 AS BIGINT)").label(ORDER)
    none = select(*target.c, kind, order).where(false())
    made = none.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    on_commit = " ON COMMIT DROP" if dialect.name == Backend.POSTGRESQL else ""
    return f"CREATE TEMPORARY TABLE {BATCH}{on_commit} AS {made}"


def number_rows(dialect: Dialect) -> str:
    """Return PostgreSQL's statement that numbers the rows of the temporary table as they come."""
    order = dialect.identifier_preparer.quote(ORDER)
    return f"ALTER TABLE {BATCH} ALTER {order} SET NOT NULL, ALTER {order} ADD GENERATED ALWAYS AS IDENTITY"


def copy_in(into: TableClause, columns: Sequence[str], dialect: Dialect) -> str:
    """Return PostgreSQL's statement that takes rows as CSV."""
    quoted = dialect.identifier_preparer
    names = ", ".join(quoted.quote(name) for name in columns)
    # SQLAlchemy doubles %, for statements with places for values
    target = f"{quoted.format_table(into)} ({names})".replace("%%", "%")
    return f"COPY {target} FROM STDIN (FORMAT csv)"


def insert_values(into: TableClause, columns: Sequence[str], dialect: Dialect) -> str:
    """Return the statement that takes rows as tuples, a `?` for each column."""
    quoted = dialect.identifier_preparer
    names = ", ".join(quoted.quote(name) for name in columns)
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {quoted.format_table(into)} ({names}) VALUES ({marks})"  # noqa: S608  names are quoted


def batch_table(columns: Sequence[str]) -> TableClause:
    """Describe the temporary table of a batch's changes."""
    return table(BATCH, *(column(each) for each in (*columns, ROW_KIND, ORDER)))


def delete_rows(target: TableClause, batch: TableClause, key: Sequence[str]) -> Delete:
    """Delete the keys whose last change says that they are gone."""
    same = and_(*(target.c[name] == batch.c[name] for name in key))
    return delete(target).where(exists().where(same, _is_last(batch, key, _GONE)))


def upsert_rows(
    target: TableClause, batch: TableClause, key: Sequence[str], backend: Backend
) -> Executable:
    """Insert the last row of each key, replacing the existing one."""
    names = [each.name for each in target.c]
    newest = select(*(batch.c[name] for name in names)).where(_is_last(batch, key, _THERE))
    put = _insert(target, backend).from_select(names, newest)
    others = {name: put.excluded[name] for name in names if name not in key}
    if not others:
        return put.on_conflict_do_nothing(index_elements=list(key))
    return put.on_conflict_do_update(index_elements=list(key), set_=others)


def _is_last(batch: TableClause, key: Sequence[str], kinds: Sequence[int]) -> ColumnElement[bool]:
    again = batch.alias("every")
    last = select(func.max(again.c[ORDER])).group_by(*(again.c[name] for name in key))
    return and_(
        batch.c[ORDER].in_(last),
        batch.c[ROW_KIND].in_(bindparam(None, kinds, expanding=True)),
    )


def _insert(target: Table | TableClause, backend: Backend) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(target) if backend is Backend.POSTGRESQL else sqlite.insert(target)
