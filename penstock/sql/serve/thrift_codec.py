"""Thrift's binary protocol: messages as trees of values, read with bounds and written back. Pure: bytes in, values
out.

A request is read as a whole, so that nothing in it is forwarded unchecked.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

VERSION = 0x80010000
MAX_DEPTH = 16
"""Structs within structs; HiveServer2's requests have four levels."""


class MalformedThriftError(Exception):
    """The bytes are no message of Thrift's, or hold more than one."""


class ThriftType(IntEnum):
    """The types of Thrift's binary protocol."""

    STOP = 0
    BOOL = 2
    BYTE = 3
    DOUBLE = 4
    I16 = 6
    I32 = 8
    I64 = 10
    STRING = 11
    STRUCT = 12
    MAP = 13
    SET = 14
    LIST = 15


class MessageType(IntEnum):
    """What a message is."""

    CALL = 1
    REPLY = 2
    EXCEPTION = 3
    ONEWAY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value of a kind: bytes of a string, a mapping by field number of a struct, a tuple of a list or set, pairs of a
    map. `inner` are the kinds of a container's elements.
    """

    kind: ThriftType
    value: Any
    inner: tuple[ThriftType, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A call or its answer: the method's name, a number that the answer repeats, and the fields."""

    type: MessageType
    name: str
    number: int
    fields: Mapping[int, Value]


_FIXED = {
    ThriftType.BOOL: struct.Struct(">?"),
    ThriftType.BYTE: struct.Struct(">b"),
    ThriftType.DOUBLE: struct.Struct(">d"),
    ThriftType.I16: struct.Struct(">h"),
    ThriftType.I32: struct.Struct(">i"),
    ThriftType.I64: struct.Struct(">q"),
}


def read_message(data: bytes, *, whole: bool = True) -> Message:
    """Read a message that has to fill `data`; not `whole`: the message's head alone, without fields.

    Raises MalformedThriftError.
    """
    reader = _ByteReader(data)
    head = reader.number(ThriftType.I32) & 0xFFFFFFFF
    if head & 0xFFFF0000 != VERSION:
        raise MalformedThriftError("no message of Thrift's strict binary protocol")
    try:
        kind = MessageType(head & 0xFF)
        name = reader.bytes().decode("ascii")
    except ValueError as error:
        raise MalformedThriftError("a message of no known type") from error
    number = reader.number(ThriftType.I32)
    fields: Mapping[int, Value] = {}
    if whole:
        fields = reader.struct(0)
        if reader.at != len(data):
            raise MalformedThriftError("something follows the message")
    return Message(type=kind, name=name, number=number, fields=fields)


def write_message(message: Message) -> bytes:
    """Write a message."""
    out = bytearray(struct.pack(">I", VERSION | message.type))
    name = message.name.encode("ascii")
    out += struct.pack(">i", len(name)) + name + struct.pack(">i", message.number)
    _write_struct(out, message.fields)
    return bytes(out)


class _ByteReader:
    """Reads values off a text of bytes; `at` is where the next begins."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def number(self, kind: ThriftType) -> Any:
        """Read a value of a fixed size."""
        form = _FIXED[kind]
        if len(self._data) - self.at < form.size:
            raise MalformedThriftError("a message is cut off")
        (found,) = form.unpack_from(self._data, self.at)
        self.at += form.size
        return found

    def bytes(self) -> bytes:
        """Read a string."""
        size = self._count()
        found = self._data[self.at : self.at + size]
        self.at += size
        return found

    def struct(self, depth: int) -> dict[int, Value]:
        """Read fields up to the end of a struct."""
        if depth > MAX_DEPTH:
            raise MalformedThriftError("structs are nested too deep")
        fields: dict[int, Value] = {}
        while (kind := self._kind()) is not ThriftType.STOP:
            field_id = self.number(ThriftType.I16)
            if field_id in fields:
                raise MalformedThriftError("a field is there twice")
            fields[field_id] = self._value(kind, depth)
        return fields

    def _value(self, kind: ThriftType, depth: int) -> Value:
        if kind in _FIXED:
            return Value(kind=kind, value=self.number(kind))
        if kind is ThriftType.STRING:
            return Value(kind=kind, value=self.bytes())
        if kind is ThriftType.STRUCT:
            return Value(kind=kind, value=self.struct(depth + 1))
        if depth > MAX_DEPTH or kind is ThriftType.STOP:
            raise MalformedThriftError("values are nested too deep, or of no type")
        if kind is ThriftType.MAP:
            keys, values = self._kind(), self._kind()
            pairs = tuple(
                (self._value(keys, depth + 1), self._value(values, depth + 1))
                for _ in range(self._count())
            )
            return Value(kind=kind, value=pairs, inner=(keys, values))
        inner = self._kind()
        items = tuple(self._value(inner, depth + 1) for _ in range(self._count()))
        return Value(kind=kind, value=items, inner=(inner,))

    def _kind(self) -> ThriftType:
        try:
            return ThriftType(self.number(ThriftType.BYTE))
        except ValueError as error:
            raise MalformedThriftError("a value of no known type") from error

    def _count(self) -> int:
        """Read a length. Every element takes a byte or more, so none is larger than what is left."""
        count: int = self.number(ThriftType.I32)
        if not 0 <= count <= len(self._data) - self.at:
            raise MalformedThriftError("a length is beyond the message's end")
        return count


def _write_struct(out: bytearray, fields: Mapping[int, Value]) -> None:
    for field_id, value in sorted(fields.items()):
        out += struct.pack(">bh", value.kind, field_id)
        _write_value(out, value)
    out.append(ThriftType.STOP)


def _write_value(out: bytearray, value: Value) -> None:
    match value.kind:
        case ThriftType.STRING:
            out += struct.pack(">i", len(value.value)) + value.value
        case ThriftType.STRUCT:
            _write_struct(out, value.value)
        case ThriftType.MAP:
            out += struct.pack(">bbi", *value.inner, len(value.value))
            for key, item in value.value:
                _write_value(out, key)
                _write_value(out, item)
        case ThriftType.LIST | ThriftType.SET:
            out += struct.pack(">bi", *value.inner, len(value.value))
            for item in value.value:
                _write_value(out, item)
        case _:
            out += _FIXED[value.kind].pack(value.value)
