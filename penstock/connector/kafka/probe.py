"""Asks a Kafka broker whether it serves, with one hand-made metadata request: no client, no threads.

Used while a broker starts and by checks of a machine; everything else talks through `client`.
"""

from __future__ import annotations

import socket
import struct

__all__ = ["serves"]

METADATA_KEY = 3
METADATA_VERSION = 1
"""Kafka protocol: with version 1 an empty topic array asks for the brokers alone."""


def serves(host: str, port: int, *, timeout_s: float = 1.0) -> bool:
    """True when the broker answers and is itself among the brokers it knows (registered and unfenced)."""
    client_id = b"penstock-probe"
    header = struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, 1, len(client_id)) + client_id
    request = header + struct.pack(">i", 0)
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", receive(connection, 4))
            _correlation_id, brokers = struct.unpack_from(">ii", receive(connection, min(size, 8)))
    except (OSError, struct.error):
        return False
    return bool(brokers > 0)


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes; struct.error follows when the other side closes before."""
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data
