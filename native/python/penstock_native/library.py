"""The compiled library by ctypes, which releases the GIL in each call. Its structs mirror `src/lib.rs`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_void_p,
)
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

__all__ = [
    "LIBRARY_API",
    "ArrayView",
    "Bytes",
    "ClientFunctions",
    "ColumnView",
    "DecodedView",
    "DrainedView",
    "EventView",
    "LinesView",
    "Memory",
    "PartView",
    "RangeView",
    "RequestView",
    "array_of",
    "buffer_of",
    "load_library",
    "row_of",
]

LIBRARY_API = 3
"""`API` of `src/lib.rs`."""

_FILE = "libpenstock_native.so"


class ClientFunctions(Structure):
    """Addresses of librdkafka's functions, in the order of `Client` in `src/librdkafka.rs`."""

    _fields_: ClassVar = [
        (name, c_void_p)
        for name in (
            "rd_kafka_consume_callback_queue",
            "rd_kafka_yield",
            "rd_kafka_topic_name",
            "rd_kafka_message_errstr",
            "rd_kafka_message_timestamp",
            "rd_kafka_message_leader_epoch",
            "rd_kafka_message_headers",
            "rd_kafka_header_get_all",
        )
    ]


class RangeView(Structure):
    """`Range`."""

    _fields_: ClassVar = [
        ("topic", c_char_p),
        ("partition", c_int32),
        ("begin", c_int64),
        ("end", c_int64),
    ]


class RequestView(Structure):
    """`Request`."""

    _fields_: ClassVar = [
        ("records", c_size_t),
        ("bytes", c_size_t),
        ("timeout_ms", c_int),
        ("wanted", c_uint32),
    ]


class Bytes(Structure):
    """`Bytes`."""

    _fields_: ClassVar = [("data", c_void_p), ("size", c_size_t)]


class ArrayView(Structure):
    """`ArrayView`."""

    _fields_: ClassVar = [
        ("validity", Bytes),
        ("offsets", Bytes),
        ("data", Bytes),
        ("length", c_size_t),
        ("nulls", c_size_t),
    ]


class PartView(Structure):
    """`PartView`."""

    _fields_: ClassVar = [
        ("count", c_size_t),
        ("last_offset", c_int64),
        ("last_leader_epoch", c_int32),
        ("values", ArrayView),
        ("keys", ArrayView),
        ("offsets", Bytes),
        ("timestamps", Bytes),
        ("timestamp_types", Bytes),
        ("leader_epochs", Bytes),
        ("header_ends", Bytes),
        ("header_names", ArrayView),
        ("header_values", ArrayView),
    ]


class EventView(Structure):
    """`EventView`."""

    _fields_: ClassVar = [
        ("range", c_int32),
        ("code", c_int),
        ("partition", c_int32),
        ("offset", c_int64),
        ("text", Bytes),
    ]


class DrainedView(Structure):
    """`DrainedView`."""

    _fields_: ClassVar = [
        ("parts", POINTER(PartView)),
        ("part_count", c_size_t),
        ("events", POINTER(EventView)),
        ("event_count", c_size_t),
        ("owner", c_void_p),
    ]


class LinesView(Structure):
    """`LinesView`."""

    _fields_: ClassVar = [
        ("validity", c_void_p),
        ("validity_size", c_size_t),
        ("first_bit", c_size_t),
        ("offsets", c_void_p),
        ("length", c_size_t),
        ("data", c_void_p),
        ("data_size", c_size_t),
    ]


class ColumnView(Structure):
    """`ColumnView`."""

    _fields_: ClassVar = [
        ("name", c_char_p),
        ("name_size", c_size_t),
        ("kind", c_uint32),
        ("separator", c_uint8),
        ("ending", c_uint8),
        ("required", c_uint8),
        ("fields", c_uint32),
    ]


class DecodedView(Structure):
    """`DecodedView`."""

    _fields_: ClassVar = [
        ("arrays", POINTER(ArrayView)),
        ("array_count", c_size_t),
        ("refused", Bytes),
        ("owner", c_void_p),
    ]


class Memory:
    """Frees what a call of the library gave, by `free`, when nothing refers to its buffers any more."""

    __slots__ = ("_free", "_owner")

    def __init__(self, free: Any, owner: int) -> None:
        self._free, self._owner = free, owner

    def __del__(self) -> None:
        self._free(self._owner)


def buffer_of(view: Bytes, memory: Memory) -> pa.Buffer:
    """Return bytes of the library as a buffer that keeps them."""
    # a buffer without bytes has no address in Rust
    return pa.foreign_buffer(view.data, view.size, memory) if view.size else pa.py_buffer(b"")


def array_of(view: ArrayView, kind: pa.DataType, memory: Memory) -> Any:
    """Return an array of the library as one that keeps its buffers."""
    buffers = [buffer_of(view.validity, memory) if view.nulls else None]
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        buffers.append(buffer_of(view.offsets, memory))
    buffers.append(buffer_of(view.data, memory))
    return pa.Array.from_buffers(kind, view.length, buffers, view.nulls)


def row_of(view: ArrayView, kind: pa.StructType, fields: Sequence[Any], memory: Memory) -> Any:
    """Return an array of the library whose values are rows of `fields`, which it keeps."""
    validity = buffer_of(view.validity, memory) if view.nulls else None
    return pa.Array.from_buffers(kind, view.length, [validity], view.nulls, children=list(fields))


def load_library() -> ctypes.CDLL:
    """Return the library beside this module. Raises OSError when it is not there, or of another version."""
    path = Path(__file__).with_name(_FILE)
    library = ctypes.CDLL(str(path))
    library.penstock_native_api.restype = c_uint32
    found = library.penstock_native_api()
    if found != LIBRARY_API:
        raise OSError(f"{_FILE} has the interface {found}, and the package {LIBRARY_API}")
    library.penstock_native_drain.restype = c_int
    library.penstock_native_drain.argtypes = [
        POINTER(ClientFunctions),
        c_void_p,
        c_void_p,
        POINTER(RangeView),
        c_size_t,
        POINTER(RequestView),
        POINTER(DrainedView),
    ]
    library.penstock_native_free.restype = None
    library.penstock_native_free.argtypes = [c_void_p]
    library.penstock_native_decode_json.restype = c_int
    library.penstock_native_decode_json.argtypes = [
        POINTER(LinesView),
        POINTER(ColumnView),
        c_size_t,
        POINTER(DecodedView),
    ]
    library.penstock_native_free_json.restype = None
    library.penstock_native_free_json.argtypes = [c_void_p]
    return library
