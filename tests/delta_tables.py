"""Read Delta tables without Spark, those with deletion vectors too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def read_delta(table: str | Path) -> pa.Table:
    """All rows of a table, as delta-rs reads them: its dataset of Arrow knows no deletion vectors, its queries do."""
    found = QueryBuilder().register("stored", DeltaTable(table)).execute("SELECT * FROM stored")
    rows = pa.table(found.read_all())
    return rows.cast(pa.schema([f.with_type(_plain(f.type)) for f in rows.schema]))


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without views, of which Arrow computes little."""
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_plain(each.type)) for each in kind])
    if kind == pa.string_view():
        return pa.string()
    return pa.binary() if kind == pa.binary_view() else kind
