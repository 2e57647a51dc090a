"""The tables of `information_schema`, a database that every catalog has: their columns, named as in SQL's standard.

What is in them is found when a query is planned (`penstock.sql.information_schema`). They are only read.
"""

from __future__ import annotations

from penstock.catalog.definitions.ddl_rules import unknown_object
from penstock.catalog.errors import DefinitionError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import INFORMATION_SCHEMA
from penstock.catalog.model.table import PhysicalColumn, Schema, Table

CONNECTOR = "information-schema"
"""The connector of these tables. Nobody else's table has it."""

_TEXT = t.VarCharType(length=t.MAX_LENGTH)
_NAME = t.VarCharType(length=t.MAX_LENGTH, nullable=False)
_YES_NO = _NAME
"""'YES' or 'NO', as in SQL's own."""
_TIME = t.TimestampLtzType(precision=3)

_Columns = tuple[tuple[str, t.LogicalType, str], ...]

_OBJECT: _Columns = (
    ("table_catalog", _NAME, "catalog of the table or view"),
    ("table_schema", _NAME, "its database"),
    ("table_name", _NAME, "its name"),
)

_TABLES: dict[str, tuple[str, _Columns]] = {
    "catalogs": (
        "the catalogs",
        (
            ("catalog_name", _NAME, "name"),
            ("catalog_type", _NAME, "the option 'type'"),
            ("default_schema", _NAME, "the database that USE CATALOG leads to"),
            ("comment", _TEXT, "comment"),
        ),
    ),
    "schemata": (
        "the databases of all catalogs",
        (
            ("catalog_name", _NAME, "catalog"),
            ("schema_name", _NAME, "database"),
            ("comment", _TEXT, "comment"),
        ),
    ),
    "tables": (
        "the tables and views",
        (
            *_OBJECT,
            ("table_type", _NAME, "BASE TABLE, VIEW or MATERIALIZED TABLE"),
            ("is_temporary", _YES_NO, "YES: it lives as long as the session"),
            ("connector", _TEXT, "the option 'connector'; NULL for a view"),
            ("comment", _TEXT, "comment"),
            ("version", t.BigIntType(), "how often it was changed, from 1; NULL if not known"),
        ),
    ),
    "columns": (
        "the columns of tables and views",
        (
            *_OBJECT,
            ("column_name", _NAME, "name"),
            ("ordinal_position", t.IntType(nullable=False), "place in the table, from 1"),
            ("data_type", _TEXT, "type in Flink's spelling; NULL if not known"),
            ("is_nullable", _YES_NO, "NO: the type is NOT NULL"),
            ("column_kind", _TEXT, "PHYSICAL, METADATA or COMPUTED; NULL in a view"),
            (
                "expression",
                _TEXT,
                "what a computed column is made of; the key of a metadata column",
            ),
            ("watermark", _TEXT, "the watermark's expression, if the column is the rowtime"),
            ("key_position", t.IntType(), "place in the primary key, from 1; NULL outside of it"),
            ("comment", _TEXT, "comment"),
        ),
    ),
    "options": (
        "the options of tables, secrets masked",
        (
            *_OBJECT,
            ("option_name", _NAME, "key"),
            ("option_value", _NAME, "value; '******' for a secret, a reference as it is written"),
        ),
    ),
    "views": (
        "the queries of views and materialized tables",
        (
            *_OBJECT,
            ("view_definition", _NAME, "the query"),
            ("is_materialized", _YES_NO, "YES: a pipeline keeps its rows"),
        ),
    ),
    "functions": (
        "the functions that users have registered",
        (
            ("function_catalog", _TEXT, "catalog; NULL for a system function"),
            ("function_schema", _TEXT, "database; NULL for a system function"),
            ("function_name", _NAME, "name"),
            ("language", _NAME, "language of the code"),
            ("code", _NAME, "the class, or the Python object"),
            ("is_temporary", _YES_NO, "YES: it lives as long as the session"),
        ),
    ),
    "pipelines": (
        "the queries that run, and those that have a checkpoint in the project",
        (
            ("pipeline_name", _NAME, "name of the pipeline"),
            ("sink_name", _TEXT, "what it writes into"),
            ("status", _NAME, "RUNNING, RESTARTING, FAILED or STOPPED"),
            ("runner_host", _TEXT, "machine of the runner"),
            ("runner_process", t.IntType(), "process id of the runner"),
            ("since", _TIME, "when it was started"),
            ("checkpoint_path", _TEXT, "its checkpoint; NULL if the project has none"),
            (
                "restarts",
                t.BigIntType(),
                "how often it started again since then; NULL if not known",
            ),
            ("last_error", _TEXT, "what it failed of last, before a restart or for good"),
            ("waiting_for", _TEXT, "what does not answer, and why"),
            ("waiting_since", _TIME, "since when it does not"),
            ("late_rows", t.BigIntType(), "rows dropped as late since then; NULL if not known"),
            ("bad_records", t.BigIntType(), "bad records left out since then; NULL if not known"),
            ("sentence", _TEXT, "what it does, or why nothing comes out, and what to change"),
        ),
    ),
    "checkpoints": (
        "the checkpoints in the project's folder",
        (
            ("pipeline_name", _NAME, "name of the pipeline, as in the path"),
            ("sink_name", _NAME, "what it writes into, as in the path"),
            ("path", _NAME, "the folder"),
            ("status", _NAME, "OK, NEW (no batch yet) or DAMAGED"),
            ("last_batch", t.BigIntType(), "the last batch whose offsets are written, from 0"),
            ("committed_batch", t.BigIntType(), "the last batch that is done"),
            ("last_batch_time", _TIME, "when the offsets of last_batch were written"),
            ("watermark", _TIME, "the watermark of last_batch, the lowest of its tables"),
            (
                "stages_run_by",
                _TEXT,
                "keyed operators or spark; NULL without stages that keep state",
            ),
            ("problem", _TEXT, "what is wrong with a damaged one"),
        ),
    ),
    "operator_states": (
        "what keyed operators keep in the checkpoints of the project's folder",
        (
            ("pipeline_name", _NAME, "name of the pipeline, as in the path"),
            ("sink_name", _NAME, "what it writes into, as in the path"),
            ("operator_name", _NAME, "the operator, as EXPLAIN names it: [stage NAME]"),
            ("input_name", _NAME, "the input of the operator whose rows these are"),
            ("batch", t.BigIntType(), "the batch that the state is as of, from 0"),
            ("buckets", t.IntType(), "buckets of keys that have rows"),
            ("row_count", t.BigIntType(), "rows in files; one that changed may be in several"),
            ("largest_bucket", t.BigIntType(), "rows of the bucket that has most"),
            ("size_bytes", t.BigIntType(), "bytes of the files"),
            ("files", t.BigIntType(), "number of files"),
            ("most_files", t.BigIntType(), "files of the bucket that has most"),
            (
                "bound",
                _TEXT,
                "what ends these rows, as EXPLAIN says it; NULL where it is not known",
            ),
            ("checkpoint_path", _NAME, "the folder of the checkpoint"),
        ),
    ),
}


def information_identifiers(catalog: str) -> list[Identifier]:
    """List the tables of a catalog's `information_schema`, sorted."""
    names = sorted(_TABLES)
    return [Identifier(catalog=catalog, database=INFORMATION_SCHEMA, name=name) for name in names]


def information_table(identifier: Identifier) -> Table:
    """Return the definition of one of them. Raises UnknownObjectError with the nearest name."""
    found = _TABLES.get(identifier.name)
    if found is None:
        raise unknown_object(identifier, information_identifiers(identifier.catalog))
    comment, columns = found
    schema = Schema(
        columns=tuple(PhysicalColumn(name=n, type=kind, comment=doc) for n, kind, doc in columns)
    )
    options = (("connector", CONNECTOR),)
    return Table(identifier=identifier, schema=schema, options=options, comment=comment)


def is_information(identifier: Identifier) -> bool:
    """Return whether a name is one of `information_schema`."""
    return identifier.database == INFORMATION_SCHEMA


def refuse_change(identifier: Identifier) -> None:
    """Refuse to define, change or drop something there. Raises DefinitionError."""
    if is_information(identifier):
        raise DefinitionError(
            f"{identifier}: the database {INFORMATION_SCHEMA} is only read",
            hint="it shows what the catalogs hold: put the table into another database",
        )
