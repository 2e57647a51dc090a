"""The stored Delta table: created from a definition, compared with it, extended by declared columns.

Errors of Delta and Hadoop become those of Penstock here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

from delta.tables import DeltaTable
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as s
from pyspark.sql.types import StructField, StructType

from penstock.catalog.errors import (
    ConfigError,
    DefinitionError,
    InputError,
    OptionError,
    QueryFailedError,
    SinkError,
    StateMismatchError,
    decode_failure,
)
from penstock.catalog.model.identifier import quote
from penstock.catalog.model.table import Table
from penstock.connector.delta.options import (
    CHECKPOINT_INTERVAL,
    COMMITS_TO_CHECKPOINT,
    DELETION_VECTORS,
    FORGETFUL,
    DeltaTarget,
)
from penstock.connector.spark.types import spark_schema

_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_JAVA_CLASS = re.compile(r"^(?:[a-z_][\w$]*\.)+[A-Z][\w$]*:\s*")
_BROKEN_RULE = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
_STATE = re.compile(r"\s*SQLSTATE: \w{5}$")
_ROWS_REFUSED = frozenset({"21", "22", "23", "P0"})
"""SQLSTATE classes of rows that are refused each time: cardinality, data, constraints, raised by the query itself."""
_DEEPEST_CAUSE = 20
"""Bound of a chain of causes; a longer one is a cycle."""
_NO_FILE_SYSTEM = re.compile(
    r"No FileSystem for scheme|ClassNotFoundException: Class \S*FileSystem"
)


@contextmanager
def translate_errors(location: str) -> Iterator[None]:
    """Translate what Spark raises about the table at `location`.

    Raises OptionError for a property, ConfigError for a missing file system, StateMismatchError for files in the way,
    DefinitionError for what Delta cannot hold, SinkError for a row that breaks NOT NULL and for transient errors,
    QueryFailedError for a row that a task could not compute; and Penstock's own errors as they were, where a task
    raised them.
    """
    try:
        yield
    except (AnalysisException, IllegalArgumentException) as error:
        raise _refusal(error, location) from error
    except Py4JJavaError as error:
        # PySpark translates some Java exceptions, these are the others: I/O
        raised = decode_failure(str(error))
        if raised is not None:
            raise raised from error
        refused = _refused_row(error.java_exception, location)
        if refused is not None:
            raise refused from error
        text = str(error.java_exception.toString())
        if _NO_FILE_SYSTEM.search(text):
            raise ConfigError(
                f"Spark has no file system for {location}",
                hint="add its jars, such as --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:<Hadoop's version>",
            ) from error
        raise SinkError(
            f"the Delta table at {location} cannot be reached: {_sentence(text)}"
        ) from error


def _refused_row(raised: Any, location: str) -> SinkError | QueryFailedError | None:
    """Return why a row was refused, or could not be computed; None where that is not what `raised` says.

    A job that writes says only that it failed, its causes say why. What they are is asked of them, not read from their
    text, which may quote the user's.
    """
    cause = raised
    for _ in range(_DEEPEST_CAUSE):
        if cause is None:
            return None
        sentence = _sentence(str(cause.toString()))
        if _said(cause, "getCondition").partition(".")[0] == _BROKEN_RULE:
            return SinkError(
                f"the Delta table at {location} does not take a row: {sentence}",
                hint="filter such rows out, or declare the column without NOT NULL",
            )
        if _said(cause, "getSqlState")[:2] in _ROWS_REFUSED:
            return QueryFailedError(sentence, permanent=True)
        cause = cause.getCause()
    return None


def _said(cause: Any, method: str) -> str:
    """Return what an exception of Spark's or Delta's says of itself; nothing of another, which has no such method."""
    try:
        return str(getattr(cause, method)() or "")
    except Py4JError:
        return ""


def _refusal(error: PySparkException, location: str) -> InputError:
    condition, sentence = error.getCondition() or "", _sentence(str(error))
    if isinstance(error, IllegalArgumentException) or "CONFIGURATION" in condition:
        return OptionError(
            f"the Delta table at {location} cannot have these properties: {sentence}",
            hint="options that begin with 'delta.' are Delta table properties, with Delta's names and values",
        )
    if condition == "DELTA_MISSING_DELTA_TABLE":
        return StateMismatchError(
            f"at {location} there are files, but no Delta table",
            hint="set an empty or new 'path', or turn the files into a Delta table with CONVERT TO DELTA",
        )
    return DefinitionError(f"Delta refuses the table at {location}: {sentence}")


def _sentence(text: str) -> str:
    """Return the first line, without conditions and class names."""
    line = text.strip().split("\n", 1)[0]
    return _STATE.sub("", _CONDITION.sub("", _JAVA_CLASS.sub("", line))).strip()


# they choose the table's protocol and are not kept as properties
_PROTOCOL = ("delta.feature.", "delta.minreaderversion", "delta.minwriterversion")


def exists(target: DeltaTarget, spark: SparkSession) -> bool:
    """Return whether there is a Delta table. Raises ConfigError when the place cannot be checked."""
    with translate_errors(target.shown):
        return DeltaTable.isDeltaTable(spark, target.location)


def create(target: DeltaTarget, spark: SparkSession, *, vectors: bool = False) -> None:
    """Create the table, unless there is one by now. Raises InputError when Delta refuses it.

    `vectors`: it has deletion vectors, if its options do not say.
    """
    builder = DeltaTable.createIfNotExists(spark).location(target.location)
    builder = builder.addColumns(stored_schema(target.table))
    if target.table.partition_keys:
        builder = builder.partitionedBy(*target.table.partition_keys)
    if target.clustering:
        builder = builder.clusterBy(*target.clustering)
    if target.table.comment is not None:
        builder = builder.comment(target.table.comment)
    if not any(key.lower() == CHECKPOINT_INTERVAL for key in target.properties):
        builder = builder.property("delta.checkpointInterval", COMMITS_TO_CHECKPOINT)
    if vectors and not any(key.lower() == DELETION_VECTORS for key in target.properties):
        builder = builder.property("delta.enableDeletionVectors", "true")
    for key, value in target.properties.items():
        builder = builder.property(key, value)
    with translate_errors(target.shown):
        builder.execute()


def check_readable(target: DeltaTarget, found: s.StructType) -> None:
    """Check that the table has the declared columns. Raises StateMismatchError."""
    _check_columns(target, found)


def check_writable(target: DeltaTarget, spark: SparkSession, query: s.StructType) -> None:
    """Check that rows of `query`, a part of the declared columns, can be appended.

    Raises StateMismatchError where table and definition differ, DefinitionError where the query does not fit.
    """
    with translate_errors(target.shown):
        found = DeltaTable.forPath(spark, target.location).toDF().schema
        # metadata only: DESCRIBE DETAIL also counts files, in a Spark job of half a second
        name = f"delta.{quote(target.location)}"
        described = spark.sql(f"DESCRIBE TABLE {name}").collect()
        properties = spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    _check_columns(target, found)
    _check_nullability(target, found, {name.lower() for name in query.names})
    _check_elements(found, query, target)
    _check_partitioning(target, _partition_columns([row["col_name"] for row in described]))
    _check_properties(target, {row["key"]: row["value"] for row in properties})
    if target.clustering:
        _check_clustering(target, spark)


_NO_EXPLICIT = ("delta.identity.allowExplicitInsert", False)
"""Metadata of a column that is GENERATED ALWAYS AS IDENTITY, in the table's log."""


def check_numbered(target: DeltaTarget, schema: str, query: s.StructType) -> None:
    """Check that rows of `query` have no column that Delta numbers. `schema` is the JSON of the table's log.

    Raises StateMismatchError.
    """
    written = {name.lower() for name in query.names}
    key, value = _NO_EXPLICIT
    for field in json.loads(schema)["fields"]:
        if field["name"].lower() in written and field.get("metadata", {}).get(key) is value:
            raise target.mismatch(
                f"its column {quote(field['name'])} is GENERATED ALWAYS AS IDENTITY: Delta numbers its rows, and takes "
                "none that has a number",
                hint=f"leave {quote(field['name'])} out of CREATE TABLE, which Delta then fills",
            )


def _check_columns(target: DeltaTarget, found: s.StructType) -> None:
    there = _by_name(found)
    for declared in stored_schema(target.table).fields:
        known = there.get(declared.name.lower())
        if known is None:
            raise target.mismatch(
                f"it has no column {quote(declared.name)}; its columns are: {', '.join(found.names)}"
            )
        is_type, declared_type = known.dataType.simpleString(), declared.dataType.simpleString()
        if is_type.lower() != declared_type.lower():
            raise target.mismatch(
                f"its column {quote(known.name)} has type {is_type}, declared is {declared_type}"
            )


def _check_nullability(target: DeltaTarget, found: s.StructType, written: set[str]) -> None:
    declared = _by_name(stored_schema(target.table))
    for known in found.fields:
        ours = declared.get(known.name.lower())
        if ours is None and not known.nullable:
            raise target.mismatch(
                f"it has a column {quote(known.name)} that is NOT NULL and not declared"
            )
        if ours is not None and ours.nullable != known.nullable:
            raise target.mismatch(
                f"its column {quote(known.name)} is {_nullability(known)}, declared is {_nullability(ours)}"
            )
        if not known.nullable and known.name.lower() not in written:
            raise DefinitionError(
                f"the INSERT leaves out column {quote(known.name)} of {target.table.identifier}, which is NOT NULL"
            )


def _check_partitioning(target: DeltaTarget, found: Iterable[str]) -> None:
    names, declared = tuple(found), target.table.partition_keys
    if [name.lower() for name in names] != [name.lower() for name in declared]:
        raise target.mismatch(
            f"it is {_partitioning(names)}, declared is {_partitioning(declared)}",
            hint=f"declare the table as it is, {_partitioning(names)}, or set another 'path'",
        )


def _check_clustering(target: DeltaTarget, spark: SparkSession) -> None:
    with translate_errors(target.shown):
        detail = DeltaTable.forPath(spark, target.location).detail()
        found = list(detail.select("clusteringColumns").collect()[0][0] or ())
    if [name.lower() for name in found] != [name.lower() for name in target.clustering]:
        declared = ", ".join(quote(name) for name in target.clustering)
        raise target.mismatch(
            f"it is clustered by {', '.join(map(quote, found)) or 'nothing'}, declared is {declared}",
            hint=f"leave 'clustering.columns' out, or ALTER TABLE delta.`{target.shown}` CLUSTER BY ({declared})",
        )


def _check_properties(target: DeltaTarget, found: Mapping[str, str]) -> None:
    there = {key.lower(): value for key, value in found.items()}
    if FORGETFUL.lower() in there:
        raise target.mismatch(
            f"its property {FORGETFUL} lets it forget which batches it holds, so some could be written twice",
            hint=f"ALTER TABLE delta.`{target.shown}` UNSET TBLPROPERTIES ('{FORGETFUL}')",
        )
    for key, value in target.properties.items():
        known = there.get(key.lower())
        if key.lower().startswith(_PROTOCOL) or known == value:
            continue
        raise target.mismatch(
            f"its property {key} is {'not set' if known is None else repr(known)}, declared is {value!r}",
            hint=f"leave the option out, or ALTER TABLE delta.`{target.shown}` SET TBLPROPERTIES "
            f"('{key}' = '{value}')",
        )


def stored_schema(table: Table) -> s.StructType:
    """Return the schema that Delta stores: NOT NULL of columns and of fields of rows, but not inside collections.

    Delta does not check NOT NULL there, and stores a NULL element of a NOT NULL array of numbers as 0. Columns of the
    PRIMARY KEY are NOT NULL, said or not (FLIP-87).
    """
    schema = spark_schema(table.schema.physical)
    key = table.schema.primary_key.columns if table.schema.primary_key is not None else ()
    columns = [_relaxed(column, inside=False) for column in schema.fields]
    return s.StructType(
        [
            s.StructField(c.name, c.dataType, c.nullable and c.name not in key, c.metadata)
            for c in columns
        ]
    )


def _relaxed(column: s.StructField, *, inside: bool) -> s.StructField:
    kind = _relaxed_type(column.dataType, inside=inside)
    return s.StructField(column.name, kind, inside or column.nullable, column.metadata)


def _relaxed_type(kind: s.DataType, *, inside: bool) -> s.DataType:
    match kind:
        case s.ArrayType():
            return s.ArrayType(_relaxed_type(kind.elementType, inside=True), True)
        case s.MapType():
            return s.MapType(
                _relaxed_type(kind.keyType, inside=True),
                _relaxed_type(kind.valueType, inside=True),
                True,
            )
        case s.StructType():
            return s.StructType([_relaxed(part, inside=inside) for part in kind.fields])
    return kind


def _check_elements(found: s.StructType, query: s.StructType, target: DeltaTarget) -> None:
    """Refuse a table that was created elsewhere with NOT NULL elements, unless the query's have no NULL either."""
    there = _by_name(found)
    for column in query.fields:
        known = there.get(column.name.lower())
        if known is not None and _loses_nulls(known.dataType, column.dataType):
            raise target.mismatch(
                f"the elements in its column {quote(known.name)} are NOT NULL, and Delta would store a NULL among "
                "them as some other value",
                hint="create the table again, without NOT NULL inside arrays and maps",
            )


def _loses_nulls(found: s.DataType, written: s.DataType) -> bool:
    match found, written:
        case s.ArrayType(), s.ArrayType():
            return (written.containsNull and not found.containsNull) or _loses_nulls(
                found.elementType, written.elementType
            )
        case s.MapType(), s.MapType():
            return (written.valueContainsNull and not found.valueContainsNull) or _loses_nulls(
                found.valueType, written.valueType
            )
        case s.StructType(), s.StructType():
            parts = _by_name(written)
            return any(
                _loses_nulls(part.dataType, parts[part.name.lower()].dataType)
                for part in found.fields
                if part.name.lower() in parts
            )
    return False


def _by_name(schema: s.StructType) -> dict[str, s.StructField]:
    """Return the columns by lower-case name: Spark and Delta ignore case."""
    return {column.name.lower(): column for column in schema.fields}


def _nullability(column: s.StructField) -> str:
    return "nullable" if column.nullable else "NOT NULL"


def _partition_columns(described: Sequence[str]) -> list[str]:
    """Find the partition columns, in their order, in the first column of DESCRIBE TABLE."""
    heads = ("# Partition Information", "# col_name")
    for index in range(len(described) - 1):
        if tuple(described[index : index + 2]) == heads:
            return [_unquoted(name) for name in takewhile(bool, described[index + 2 :])]
    return []


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _partitioning(names: Iterable[str]) -> str:
    listed = ", ".join(quote(name) for name in names)
    return f"PARTITIONED BY ({listed})" if listed else "not partitioned"


def missing_columns(target: DeltaTarget, found: StructType) -> StructType:
    """Return the declared columns that a table with the columns `found` lacks.

    Raises StateMismatchError for one that cannot be added later: the existing rows have no value for it, or are in the
    partition of another value.
    """
    there = {name.lower() for name in found.names}
    missing = [f for f in stored_schema(target.table).fields if f.name.lower() not in there]
    for field in missing:
        fixed = field.name in (*target.table.partition_keys, *target.clustering)
        if fixed or _is_not_null(field):
            role = "the table is laid out by" if fixed else "is NOT NULL"
            raise target.mismatch(
                f"it has no column {quote(field.name)}, which {role} and cannot be added to rows that are there",
                hint="set another 'path'" if fixed else "declare the column without NOT NULL",
            )
    return StructType(missing)


def _is_not_null(field: StructField) -> bool:
    """Return whether it, or a field of a row in it, is NOT NULL: Delta adds neither."""
    inside = field.dataType.fields if isinstance(field.dataType, StructType) else []
    return not field.nullable or any(_is_not_null(part) for part in inside)


def add_missing_columns(spark: SparkSession, target: DeltaTarget) -> None:
    """Add the declared columns that the table lacks; NULL in the existing rows. Raises InputError, SinkError."""
    with translate_errors(target.shown):
        found = DeltaTable.forPath(spark, target.location).toDF().schema
        missing = missing_columns(target, found)
        if missing.fields:
            name = f"delta.{quote(target.location)}"
            spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({missing.toDDL()})")
