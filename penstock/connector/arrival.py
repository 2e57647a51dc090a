"""The order in which records came, as a hidden column of a scan: by micro-batch, input, split, position in the split.

A batch that is replayed reads the same ranges and so gives the same numbers, however its ranges are dealt to tasks.
"""

from __future__ import annotations

__all__ = ["ARRIVED", "ARRIVED_FIELDS"]

ARRIVED = "__arrived"
"""Name of the hidden column, a STRUCT; there where a query asks which of two rows came first."""

ARRIVED_FIELDS = ("batch", "input", "split", "position")
"""Its fields, the first to compare first.

`batch` is the id of the micro-batch, 0 where rows are read once; `input` the place of the table among those of the
query; `split` that of the split in the batch's offset; `position` grows with the rows of a split.
"""
