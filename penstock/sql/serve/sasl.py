"""SASL as HiveServer2 speaks it: frames of a negotiation, the mechanism PLAIN (RFC 4616), then messages by length.

Pure but for the stream that is read: anything with `read(count)`, which returns exactly so many bytes or raises.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

__all__ = [
    "Credentials",
    "SaslError",
    "SaslStatus",
    "negotiate",
    "negotiation_frame",
    "plain_response",
    "read_negotiation",
]

MECHANISM = b"PLAIN"
MAX_NEGOTIATION_BYTES = 4096
MAX_NAME_LENGTH = 256
_HEAD = struct.Struct(">BI")


class SaslError(Exception):
    """The client does not speak SASL, or no mechanism that is known here. `str` is for the client."""


class SaslStatus(IntEnum):
    """The first byte of a frame of the negotiation (Thrift's TSaslTransport)."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A name and a password."""

    name: str
    password: str = field(repr=False)


def negotiate(read: Callable[[int], bytes]) -> Credentials:
    """Read what a client sends to log in. Raises SaslError."""
    status, mechanism = read_negotiation(read)
    if status is not SaslStatus.START or mechanism != MECHANISM:
        raise SaslError("this server takes SASL PLAIN, a user name and a password")
    status, response = read_negotiation(read)
    if status not in {SaslStatus.OK, SaslStatus.COMPLETE}:
        raise SaslError("the log-in was broken off")
    return _credentials(response)


def read_negotiation(read: Callable[[int], bytes]) -> tuple[SaslStatus, bytes]:
    """Read one frame of the negotiation. Raises SaslError."""
    code, size = _HEAD.unpack(read(_HEAD.size))
    if size > MAX_NEGOTIATION_BYTES:
        raise SaslError("this is no log-in")
    try:
        status = SaslStatus(code)
    except ValueError:
        raise SaslError("this is no log-in") from None
    return status, read(size)


def negotiation_frame(status: SaslStatus, payload: bytes = b"") -> bytes:
    """Write one frame of the negotiation."""
    return _HEAD.pack(status, len(payload)) + payload


def plain_response(credentials: Credentials) -> bytes:
    """Write what a client sends to log in with PLAIN."""
    return b"\0".join((b"", credentials.name.encode(), credentials.password.encode()))


def _credentials(response: bytes) -> Credentials:
    """Read `authzid NUL authcid NUL password`. Nobody acts for another user."""
    parts = response.split(b"\0")
    try:
        for_whom, name, password = (part.decode() for part in parts)
    except ValueError:
        raise SaslError("this is no user name and password") from None
    if for_whom not in {"", name}:
        raise SaslError("nobody acts for another user on this server")
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise SaslError("Error validating the login")
    return Credentials(name=name, password=password)
