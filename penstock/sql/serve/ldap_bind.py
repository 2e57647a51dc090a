"""The few messages of LDAP that a log-in takes (RFC 4511 §4.2): a simple bind, its answer, and the end.

Pure: bytes in, values out. Everything is BER: a byte for the tag, the length, then the content.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["MalformedMessageError", "SimpleBind", "bind_answer", "read_bind", "read_length"]

SEQUENCE, INTEGER, OCTET_STRING, ENUMERATED = 0x30, 0x02, 0x04, 0x0A
BIND_REQUEST, BIND_RESPONSE, SIMPLE_PASSWORD = 0x60, 0x61, 0x80
SUCCESS, INVALID_CREDENTIALS = 0, 49
MAX_LENGTH_BYTES = 4


class MalformedMessageError(Exception):
    """The bytes are no LDAP message, or none that belongs to a log-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleBind:
    """A user asks to be let in; `message_id` is repeated in the answer."""

    message_id: int
    name: str
    password: str = field(repr=False)


def read_bind(message: bytes) -> SimpleBind | None:
    """Read the content of an LDAPMessage; None for another operation than a bind, which ends the connection.

    Raises MalformedMessageError, also for a bind that is not simple (SASL).
    """
    identifier, rest = _take(message, INTEGER)
    if not rest or rest[0] != BIND_REQUEST:
        return None
    request, _controls = _take(rest, BIND_REQUEST)
    _version, request = _take(request, INTEGER)
    name, request = _take(request, OCTET_STRING)
    password, _nothing = _take(request, SIMPLE_PASSWORD)
    try:
        return SimpleBind(
            message_id=int.from_bytes(identifier, signed=True),
            name=name.decode(),
            password=password.decode(),
        )
    except UnicodeDecodeError as error:
        raise MalformedMessageError("a name or a password is not UTF-8") from error


def bind_answer(message_id: int, *, granted: bool) -> bytes:
    """Write the answer to a bind: success, or invalid credentials."""
    code = SUCCESS if granted else INVALID_CREDENTIALS
    result = _element(ENUMERATED, bytes([code])) + 2 * _element(OCTET_STRING, b"")
    identifier = message_id.to_bytes(message_id.bit_length() // 8 + 1, signed=True)
    answer = _element(INTEGER, identifier) + _element(BIND_RESPONSE, result)
    return _element(SEQUENCE, answer)


def read_length(head: bytes) -> int | None:
    """Read the length that follows a tag; None when `head` is too short to tell. Raises MalformedMessageError."""
    if not head:
        return None
    if head[0] < 0x80:
        return head[0]
    count = head[0] & 0x7F
    if not 1 <= count <= MAX_LENGTH_BYTES:
        raise MalformedMessageError("a length has no end")
    return int.from_bytes(head[1 : count + 1]) if len(head) > count else None


def _take(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Split one element off: its content, and what follows it."""
    if not data or data[0] != tag:
        raise MalformedMessageError(f"element {tag:#x} is missing")
    length = read_length(data[1:])
    start = 2 if data[1:2] < b"\x80" else 2 + (data[1] & 0x7F)
    if length is None or len(data) < start + length:
        raise MalformedMessageError(f"element {tag:#x} is cut off")
    return data[start : start + length], data[start + length :]


def _element(tag: int, content: bytes) -> bytes:
    assert len(content) < 0x80, "answers are short"
    return bytes([tag, len(content)]) + content
