"""What a block takes of the memory of Arrow and Python at most."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

MB = 1 << 20

_pools: list[pa.MemoryPool] = []
"""Pools of blocks that have ended: what was allocated from one goes back to it."""


@contextmanager
def peak_bytes() -> Iterator[Callable[[], int]]:
    """Give the bytes that were allocated at once since the block began; those of DuckDB and of mapped files are not."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    _pools.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        yield lambda: int(pool.max_memory() + tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
