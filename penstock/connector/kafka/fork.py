"""Keeps a forked child from destroying what only its parent can use.

librdkafka's threads do not survive a fork, and closing or freeing an inherited handle can hang or abort the
child (librdkafka#2374, confluent-kafka-python#351); Spark forks every Python worker.
"""

from __future__ import annotations

import ctypes
import os
import weakref

__all__ = ["outlive_forks"]

_HANDLES: weakref.WeakSet[object] = weakref.WeakSet()


def outlive_forks(handle: object) -> None:
    """Never free `handle` in a child of this process: there it is only leaked memory."""
    _HANDLES.add(handle)


def _leak() -> None:
    for handle in _HANDLES:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


os.register_at_fork(after_in_child=_leak)
