"""Flink's data types, spelling by spelling (its page "Data Types"), and what Spark keeps of each."""

from __future__ import annotations

from penstock.sql.compatibility.row import Kind, Row, Status

__all__ = ["TYPES"]

SYNONYM = "a synonym: {} is stored and shown"
NO_FRACTION = "digits behind the sixth are cut off: Spark keeps microseconds"
ZONED = "use TIMESTAMP_LTZ"


def _row(name: str, example: str, status: Status, note: str = "") -> Row:
    return Row(Kind.TYPE, name, example, status, note)


def _native(*names: str) -> tuple[Row, ...]:
    return tuple(_row(name, name, Status.NATIVE) for name in names)


TYPES: tuple[Row, ...] = (
    # --- texts and bytes ---
    _row("CHAR", "CHAR", Status.TRANSLATE, "of length 1, as in Flink; a STRING in Spark, padded by CAST"),
    _row("CHAR(n)", "CHAR(3)", Status.TRANSLATE, "a STRING in Spark; CAST cuts and pads as Flink's"),
    _row("VARCHAR", "VARCHAR", Status.TRANSLATE, "a STRING"),
    _row("VARCHAR(n)", "VARCHAR(10)", Status.TRANSLATE, "a STRING in Spark; CAST cuts as Flink's"),
    *_native("STRING"),
    _row("BINARY(n)", "BINARY(4)", Status.TRANSLATE, "BINARY in Spark, which has no lengths"),
    _row("VARBINARY(n)", "VARBINARY(10)", Status.TRANSLATE, "BINARY in Spark, which has no lengths"),
    _row("BYTES", "BYTES", Status.NATIVE, "BINARY in Spark"),
    # --- numbers ---
    *_native("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    _row("INTEGER", "INTEGER", Status.NATIVE, SYNONYM.format("INT")),
    _row("DOUBLE PRECISION", "DOUBLE PRECISION", Status.NATIVE, SYNONYM.format("DOUBLE")),
    _row("DECIMAL", "DECIMAL", Status.NATIVE, "of precision 10 and scale 0, as in Flink"),
    _row("DECIMAL(p, s)", "DECIMAL(10, 2)", Status.NATIVE),
    _row("DEC(p)", "DEC(5)", Status.NATIVE, SYNONYM.format("DECIMAL")),
    _row("NUMERIC(p, s)", "NUMERIC(12, 4)", Status.NATIVE, SYNONYM.format("DECIMAL")),
    # --- time ---
    *_native("DATE"),
    _row("TIME(p)", "TIME(3)", Status.NATIVE, NO_FRACTION),
    _row("TIME(p) WITHOUT TIME ZONE", "TIME(0) WITHOUT TIME ZONE", Status.NATIVE, SYNONYM.format("TIME(p)")),
    _row("TIMESTAMP(p)", "TIMESTAMP(3)", Status.NATIVE, f"TIMESTAMP_NTZ in Spark; {NO_FRACTION}"),
    _row("TIMESTAMP(p) WITHOUT TIME ZONE", "TIMESTAMP(6) WITHOUT TIME ZONE", Status.NATIVE,
         SYNONYM.format("TIMESTAMP(p)")),
    _row("TIMESTAMP_LTZ(p)", "TIMESTAMP_LTZ(3)", Status.NATIVE, f"TIMESTAMP in Spark; {NO_FRACTION}"),
    _row("TIMESTAMP(p) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE", Status.NATIVE,
         SYNONYM.format("TIMESTAMP_LTZ(p)")),
    _row("TIMESTAMP(p) WITH TIME ZONE", "TIMESTAMP(3) WITH TIME ZONE", Status.REFUSE, ZONED),
    _row("INTERVAL YEAR TO MONTH", "INTERVAL YEAR(4) TO MONTH", Status.NATIVE,
         "fields and precision are read and not kept: every such interval is YEAR TO MONTH"),
    _row("INTERVAL DAY TO SECOND", "INTERVAL DAY(2) TO SECOND(3)", Status.NATIVE,
         "fields and precision are read and not kept: every such interval is DAY TO SECOND"),
    # --- collections ---
    *_native("ARRAY<INT>"),
    _row("t ARRAY", "INT NOT NULL ARRAY", Status.NATIVE, SYNONYM.format("ARRAY<t>")),
    *_native("MAP<STRING, INT>"),
    _row("MULTISET<t>", "MULTISET<STRING>", Status.TRANSLATE, "a MAP of elements and their counts in Spark"),
    _row("t MULTISET", "INT MULTISET", Status.TRANSLATE, SYNONYM.format("MULTISET<t>")),
    _row("ROW<name t, ...>", "ROW<id BIGINT, `a b` STRING 'what it is'>", Status.NATIVE,
         "a STRUCT in Spark; comments of fields are kept in the catalog"),
    _row("ROW(name t, ...)", "ROW(id BIGINT, name STRING)", Status.NATIVE, SYNONYM.format("ROW<...>")),
    _row("NOT NULL", "ARRAY<INT NOT NULL> NOT NULL", Status.OWN,
         "kept in the catalog; the sinks check it, Spark's own types of rows have it for fields only"),
    # --- others ---
    _row("VARIANT", "VARIANT", Status.REFUSE, "the type VARIANT is not supported"),
    _row("NULL", "NULL", Status.REFUSE, "the type NULL is not supported"),
    _row("RAW", "RAW('java.lang.Long', 'AAA')", Status.REFUSE, "the type RAW is not supported"),
    _row("STRUCTURED", "STRUCTURED<'com.example.User', name STRING, age INT NOT NULL>", Status.REFUSE,
         "write ROW<"),
    _row("BITMAP", "BITMAP", Status.REFUSE, "the type BITMAP is not supported"),
    _row("GEOGRAPHY", "GEOGRAPHY", Status.REFUSE, "the type GEOGRAPHY is not supported"),
    _row("DESCRIPTOR", "DESCRIPTOR", Status.REFUSE, "the type DESCRIPTOR is not supported"),
)  # fmt: skip
"""Every type of Flink 2.2, its synonyms, and those that are refused."""
