# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operator of a ChangelogNormalize: the last change of each key of a batch replaces the key's row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout, KeyedState
from penstock.sql.incremental.keyed.tables import (
    BucketTables,
    difference,
    folded,
    listed,
    normalized,
    positions_of,
    typed,
)

_DELETES = f"IN ({int(RowKind.DELETE)}, {int(RowKind.UPDATE_BEFORE)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizeUpserts:
    """Upserts and deletes of the relation `name` become changes with the row before (Flink's ChangelogNormalize).

    `layout` has all columns as `dims`, and no values but COUNT.
    """

    name: str
    layout: KeyedLayout

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The last rows."""
        return {self.name: self.layout}

    @property
    def ordered(self) -> frozenset[str]:
        """The last change counts."""
        return frozenset({self.name})

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the changes with the row before, and write the last rows."""
        upserts, layout = changes.get(self.name), self.layout
        if upserts is None or not upserts.num_rows:
            return pa.schema([*layout.dims, pa.field(ROW_KIND, pa.int8())]).empty_table()
        dims = [f"c{n}" for n in range(len(layout.dims))]
        positions = [layout.names.index(name) for name in layout.key]
        with BucketTables() as tables:
            position = positions_of(upserts)
            tables.give("given0", upserts.append_column("position", position))
            columns = listed(
                f"{normalized(f'c{n}', of.type)} AS c{n}" for n, of in enumerate(layout.dims)
            )
            kind, order = f"c{len(dims)}", f"c{len(dims) + 1}"
            tables.create(
                "upserts",
                f"SELECT {columns}, {kind} {_DELETES} AS gone, {order} AS position FROM given0",
            )
            key = listed(dims[n] for n in positions)
            tables.create(
                "newest",
                f"SELECT * FROM upserts QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY position DESC) = 1",
            )
            keys = typed(
                tables.rows(f"SELECT {key} FROM newest"),
                pa.schema(
                    [
                        pa.field(k, kind)
                        for k, kind in zip(layout.key, layout.key_types, strict=True)
                    ]
                ),
            )
            tables.give("stored0", states[self.name].rows_of(keys))
            tables.create("folded0", folded("stored0", layout, batch))
            rows = listed(dims)
            new = f"SELECT {rows}, 1 AS sign, 1 AS n FROM newest WHERE NOT gone"
            old = (
                f"SELECT {rows}, CASE WHEN alive THEN -1 ELSE 0 END AS sign, -s0 AS n FROM folded0"
            )
            tables.create("known", f"{new} UNION ALL {old}")
            # with a time to live also keys that got the same row again
            again = " OR MAX(sign) > 0" if layout.time_to_live_ms else ""
            written = tables.rows(
                f"SELECT {rows}, SUM(n)::BIGINT, {batch.now_ms}::BIGINT FROM known GROUP BY {rows} "
                f"HAVING SUM(n) <> 0{again} ORDER BY {rows}"
            )
            states[self.name].write(typed(written, layout.schema))
            tables.create("results", f"SELECT {rows}, sign FROM known WHERE sign <> 0")
            return difference(
                tables,
                layout.dims,
                positions,
                inserts_only=False,
                unchanged=layout.time_to_live_ms > 0,
            )
