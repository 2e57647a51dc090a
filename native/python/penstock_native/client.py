"""The librdkafka that confluent-kafka has loaded, and the handles of its consumers.

A handle is private to confluent-kafka: it is the first field of a consumer. Before it is used, it is read as plain
memory and its name is compared, so that another layout is noticed and never followed.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import sys
import sysconfig
from ctypes import c_char_p, c_int, c_int32, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from penstock_native.library import ClientFunctions, load_library

__all__ = ["Client", "UnusableError", "check_client", "handle_of", "open_client"]

MAJOR = 2
"""The major version of librdkafka, in which its public structs do not change."""

NAME_BYTES = 127
"""Bytes of a client's name, of which librdkafka leaves out the rest: a long `client.id` lacks the number behind it."""

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_version": (c_int, []),
    "rd_kafka_name": (c_void_p, [c_void_p]),
    "rd_kafka_queue_new": (c_void_p, [c_void_p]),
    "rd_kafka_queue_destroy": (None, [c_void_p]),
    "rd_kafka_queue_forward": (None, [c_void_p, c_void_p]),
    "rd_kafka_queue_get_partition": (c_void_p, [c_void_p, c_char_p, c_int32]),
}


class UnusableError(Exception):
    """Records cannot be drained here; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Both libraries."""

    library: ctypes.CDLL
    librdkafka: ctypes.CDLL
    functions: ClientFunctions


def check_client() -> str:
    """Return the version of the librdkafka that would be drained. Raises UnusableError."""
    version = open_client().librdkafka.rd_kafka_version()
    return ".".join(str(version >> shift & 0xFF) for shift in (24, 16, 8))


@cache
def open_client() -> Client:
    """Return both libraries. Raises UnusableError."""
    if sys.platform != "linux" or struct.calcsize("P") != 8:
        raise UnusableError(f"only 64-bit Linux is supported, this is {sys.platform}")
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise UnusableError("only CPython with a GIL is supported")
    try:
        library = load_library()
    except OSError as error:
        raise UnusableError(str(error)) from error
    import confluent_kafka.cimpl

    # symbols of a library are looked up in those it is linked with, too: this is the one that its consumers use
    librdkafka = ctypes.CDLL(confluent_kafka.cimpl.__file__)
    try:
        for name, (result, parameters) in _SIGNATURES.items():
            function = getattr(librdkafka, name)
            function.restype, function.argtypes = result, parameters
        addresses = [
            ctypes.cast(getattr(librdkafka, field[0]), c_void_p).value
            for field in ClientFunctions._fields_
        ]
    except AttributeError as error:
        raise UnusableError(f"librdkafka has not what is needed: {error}") from error
    version = librdkafka.rd_kafka_version()
    if version >> 24 != MAJOR or version != confluent_kafka.libversion()[1]:
        raise UnusableError(
            f"librdkafka {version:#x} is not of version {MAJOR}, or not confluent-kafka's"
        )
    return Client(library=library, librdkafka=librdkafka, functions=ClientFunctions(*addresses))


def handle_of(consumer: object, client_id: str) -> int:
    """Return librdkafka's handle of a confluent-kafka consumer with that `client.id`. Raises UnusableError."""
    client = open_client()
    expected = f"{client_id}#consumer-".encode()[:NAME_BYTES]
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123  of this very process
            (handle,) = struct.unpack(
                "P", os.pread(memory.fileno(), 8, id(consumer) + object.__basicsize__)
            )
            os.pread(memory.fileno(), 8, handle)
            name = client.librdkafka.rd_kafka_name(handle)
            found = os.pread(memory.fileno(), 512, name) if name else b""
    except (OSError, OverflowError) as error:
        raise UnusableError(f"the handle of the consumer cannot be read: {error}") from error
    name_found, end, _ = found.partition(b"\0")
    number = name_found.removeprefix(expected)
    complete = len(name_found) == NAME_BYTES or number
    if not (end and name_found.startswith(expected) and complete and re.fullmatch(rb"\d*", number)):
        raise UnusableError("this confluent-kafka keeps the handle of a consumer elsewhere")
    return int(handle)
