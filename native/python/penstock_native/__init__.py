"""Records of a confluent-kafka consumer as Arrow arrays, without a Python object for each, and JSON as columns.

Penstock's Kafka connector is the only user. `API` changes with any change of what is exported here.
"""

from __future__ import annotations

from penstock_native.client import UnusableError, check_client
from penstock_native.json import JsonColumn, JsonEnding, JsonKind, read_json
from penstock_native.queue import Drained, Event, Headers, Part, Range, RecordQueue

__all__ = [
    "API",
    "Drained",
    "Event",
    "Headers",
    "JsonColumn",
    "JsonEnding",
    "JsonKind",
    "Part",
    "Range",
    "RecordQueue",
    "UnusableError",
    "check_client",
    "read_json",
]

API = 3
