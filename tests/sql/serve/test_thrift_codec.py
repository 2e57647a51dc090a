"""Messages of Thrift's binary protocol: as its own library writes them, and all that is no message."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import TCLIService
from TCLIService import ttypes as rpc
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from penstock.sql.serve.thrift_codec import (
    MAX_DEPTH,
    MalformedThriftError,
    Message,
    MessageType,
    ThriftType,
    Value,
    read_message,
    write_message,
)


def written() -> bytes:
    """A call as Thrift's library writes it, with a field of nearly every type."""
    buffer = TMemoryBuffer()
    handle = rpc.TSessionHandle(rpc.THandleIdentifier(b"g" * 16, b"s" * 16))
    request = rpc.TExecuteStatementReq(handle, "SELECT 'ä'", {"k": "v"}, True, 7)
    TCLIService.Client(TBinaryProtocol(buffer)).send_ExecuteStatement(request)
    found: bytes = buffer.getvalue()
    return found


def test_a_message_of_thrift_s_own_library_is_read_and_written_back() -> None:
    """Byte by byte."""
    message = read_message(written())

    assert (message.type, message.name) == (MessageType.CALL, "ExecuteStatement")
    assert message.fields[1].value[2].value.decode() == "SELECT 'ä'"
    assert write_message(message) == written()


@given(st.integers(0, len(written()) - 1))
def test_a_message_that_is_cut_off_is_malformed(length: int) -> None:
    """Wherever it is cut."""
    with pytest.raises(MalformedThriftError):
        read_message(written()[:length])


def test_two_messages_in_one_frame_are_malformed() -> None:
    """The second would reach the server without a look at it."""
    with pytest.raises(MalformedThriftError, match="follows"):
        read_message(written() * 2)


@given(st.integers(0, len(written()) - 1), st.integers(0, 255))
def test_a_changed_byte_gives_a_message_or_an_error(at: int, byte: int) -> None:
    """Nothing else is raised, and what is read is what is written."""
    data = bytearray(written())
    data[at] = byte
    try:
        message = read_message(bytes(data))
    except MalformedThriftError:
        return
    assert read_message(write_message(message)) == message


def test_structs_without_end_are_malformed() -> None:
    """Before Python's stack is full."""
    head = write_message(Message(type=MessageType.CALL, name="x", number=0, fields={}))[:-1]

    with pytest.raises(MalformedThriftError, match="deep"):
        read_message(head + struct.pack(">bh", ThriftType.STRUCT, 1) * (MAX_DEPTH + 100))


@pytest.mark.parametrize("kind", [ThriftType.LIST, ThriftType.SET])
def test_a_length_beyond_the_message_is_malformed(kind: ThriftType) -> None:
    """Nothing is made of it."""
    head = write_message(Message(type=MessageType.CALL, name="x", number=0, fields={}))[:-1]
    field = struct.pack(">bhbi", kind, 1, ThriftType.BOOL, 2**31 - 1)

    with pytest.raises(MalformedThriftError, match="beyond"):
        read_message(head + field + b"\0")


def test_a_map_without_entries_has_no_types() -> None:
    """As some of Thrift's libraries write it."""
    empty = Value(kind=ThriftType.MAP, value=(), inner=(ThriftType.STOP, ThriftType.STOP))
    message = Message(type=MessageType.CALL, name="x", number=1, fields={4: empty})

    assert read_message(write_message(message)) == message
