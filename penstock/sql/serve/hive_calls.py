"""Which calls of HiveServer2's protocol clients may make, with which fields; everything else is refused. Pure.

A connection has one session at a time and uses only handles that it was given. Of what a client asks for when
it opens a session (`set:...`, `hive.server2.proxy.user`, variables) only the database reaches Spark. Errors
reach clients without stacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.catalog.errors import decode_failure
from penstock.sql.serve.metadata_rows import GLOBAL_VIEWS, SCHEMA_COLUMNS, without_views
from penstock.sql.serve.thrift_codec import Message, MessageType, ThriftType, Value

MAX_LENGTH = 4000
"""Characters of a message."""

_TRACEBACK = re.compile(r"^\s*(?:\w+\. )?Traceback \(most recent call last\):[ ]*$")

_JAVA = re.compile(r"^\s*(at [\w.$/<>]+\(.*\)|\.\.\. \d+ (more|common frames omitted))\s*$")


def client_text(text: str) -> str:
    """Shorten an error's text. One of Penstock's own is its message and hint."""
    own = decode_failure(text)
    if own is not None:
        return f"{own.message}; {own.hint}" if own.hint else own.message
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if _TRACEBACK.match(line):
            inside = True
        elif inside and (line.startswith(" ") or not line.strip()):
            continue  # frames and the lines of code that they show
        elif not _JAVA.match(line):
            inside = False
            lines.append(line)
    return "\n".join(lines)[:MAX_LENGTH]


FETCH = "FetchResults"

OPEN = "OpenSession"

CLOSE = "CloseSession"

CLOSE_OPERATION = "CloseOperation"

MAX_STATEMENT_BYTES = 1 << 20
"""Generated SQL of BI tools has some ten thousand."""

MAX_OPERATIONS = 200
"""Statements and metadata calls of a connection that are not closed; Spark keeps the rows of each."""

DATABASE = b"use:database"

PYHIVE_PROTOCOL = 5
"""HIVE_CLI_SERVICE_PROTOCOL_V6: PyHive asks for it, the drivers of JDBC and ODBC for newer ones."""

# what PyHive's dialect of SQLAlchemy sends; it takes the first column for the name, which is Spark's second
_LISTING = re.compile(rb"SHOW TABLES( IN `[^`]+`)?")

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)?")

# Spark makes a regular expression of a pattern, and with these one that takes it years
_EXPRESSION = re.compile(rb"[|()\[\]{}^+?]")

# field numbers
REQUEST, HANDLE = 1, 1

RESULT, STATUS, SESSION, OPERATION = 0, 1, 3, 2

USER, PASSWORD, CONFIGURATION = 2, 3, 4

STATEMENT = 2

SCHEMA_PATTERN = 3

STATUS_CODE, INFO_MESSAGES, ERROR_MESSAGE = 1, 2, 5

GOOD = frozenset({0, 1})  # SUCCESS_STATUS, SUCCESS_WITH_INFO_STATUS

ROWS, COLUMNS, SCHEMA, POSITION = 3, 3, 2, 3

_TEXT, _FLAG, _INT, _LONG, _SHORT = (
    ThriftType.STRING,
    ThriftType.BOOL,
    ThriftType.I32,
    ThriftType.I64,
    ThriftType.I16,
)

_PATTERNS: Mapping[int, ThriftType] = dict.fromkeys(range(2, 8), _TEXT)

_OF_SESSION: Mapping[str, Mapping[int, ThriftType]] = {
    CLOSE: {},
    "GetInfo": {2: _INT},
    "ExecuteStatement": {STATEMENT: _TEXT, 4: _FLAG, 5: _LONG},
    "GetTypeInfo": {},
    "GetCatalogs": {},
    "GetSchemas": _PATTERNS,
    "GetTables": {2: _TEXT, 3: _TEXT, 4: _TEXT, 5: ThriftType.LIST},
    "GetTableTypes": {},
    "GetColumns": _PATTERNS,
    "GetFunctions": _PATTERNS,
    "GetPrimaryKeys": _PATTERNS,
    "GetCrossReference": _PATTERNS,
}
"""Calls with a session's handle in their first field, and the other fields that they keep. Not `confOverlay` (3)."""

_OF_OPERATION: Mapping[str, Mapping[int, ThriftType]] = {
    "GetOperationStatus": {2: _FLAG},
    "CancelOperation": {},
    CLOSE_OPERATION: {},
    "GetResultSetMetadata": {},
    FETCH: {2: _INT, 3: _LONG, 4: _SHORT},
}
"""Calls with an operation's handle in their first field."""


_HANDLE_FIELDS: Mapping[int, ThriftType] = {
    1: ThriftType.STRUCT,
    2: _INT,
    3: _FLAG,
    4: ThriftType.DOUBLE,
}

_ID: Mapping[int, ThriftType] = {1: _TEXT, 2: _TEXT}


class RefusedCallError(Exception):
    """A call that no client may make, or not now. `str` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Handle:
    guid: bytes
    secret: bytes


class ConnectionCalls:
    """The calls of one connection, whose user has logged in."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._session: _Handle | None = None
        # as Spark gave them: the two texts of a handle are not all that it goes by
        self._operations: dict[_Handle, Value] = {}
        self._asks_as_hive = False
        self._listings: set[_Handle] = set()
        self._metadata: dict[_Handle, int] = {}
        self._called: tuple[str, Mapping[int, Value]] = ("", {})

    def request(self, message: Message) -> Message:
        """Return the call that goes to Spark instead of a client's. Raises RefusedCallError."""
        if message.type is not MessageType.CALL:
            raise RefusedCallError("only calls are taken")
        asked = _struct(message.fields.get(REQUEST))
        if message.name == OPEN:
            if self._session is not None:
                raise RefusedCallError("this connection has a session")
            fields = self._opening(asked)
        elif message.name in _OF_SESSION:
            fields = _only(asked, _OF_SESSION[message.name])
            if self._session is None or _handle(asked.get(HANDLE)) != self._session:
                raise RefusedCallError("this is no session of this connection")
        elif message.name in _OF_OPERATION:
            fields = _only(asked, _OF_OPERATION[message.name])
            operation = _handle(asked.get(HANDLE))
            if operation is None or operation not in self._operations:
                raise RefusedCallError("this is no operation of this connection")
            fields[HANDLE] = self._operations[operation]
        else:
            name = message.name if message.name.isidentifier() else "this call"
            raise RefusedCallError(f"this server does not take {name}")
        starts = message.name in _OF_SESSION and message.name != CLOSE
        if starts and len(self._operations) >= MAX_OPERATIONS:
            raise RefusedCallError(f"this connection has {MAX_OPERATIONS} open statements")
        _check_patterns(message.name, fields)
        statement = fields.get(STATEMENT) if message.name == "ExecuteStatement" else None
        if statement is not None and len(statement.value) > MAX_STATEMENT_BYTES:
            raise RefusedCallError(f"a statement has at most {MAX_STATEMENT_BYTES} bytes")
        self._called = message.name, fields
        return replace(message, fields={REQUEST: Value(kind=ThriftType.STRUCT, value=fields)})

    @property
    def changes_rows(self) -> bool:
        """Whether `response` has to see the rows that the last call asks for: those about schemas and tables."""
        return self._lists_tables or self._called_metadata is not None

    @property
    def _lists_tables(self) -> bool:
        name, fields = self._called
        return name in _OF_OPERATION and _handle(fields.get(HANDLE)) in self._listings

    @property
    def _called_metadata(self) -> int | None:
        """The column with the schema, where the last call fetches rows about schemas."""
        name, fields = self._called
        handle = _handle(fields.get(HANDLE)) if name == FETCH else None
        return None if handle is None else self._metadata.get(handle)

    def response(self, message: Message) -> Message:
        """Return the answer that goes to the client; remember the handles in it, and forget what Spark has closed."""
        answer = message.fields.get(RESULT)
        if message.type is not MessageType.REPLY or answer is None:
            return message
        fields = dict(_struct(answer))
        if message.name == OPEN:
            self._session = _handle(fields.get(SESSION))
        elif message.name in {CLOSE, CLOSE_OPERATION}:
            if _is_good(fields.get(STATUS)):
                self._forget(message.name)
        elif message.name in _OF_SESSION and (started := _handle(fields.get(OPERATION))):
            self._operations[started] = fields[OPERATION]
            if self._starts_listing():
                self._listings.add(started)
            elif self._called[0] in SCHEMA_COLUMNS:
                self._metadata[started] = SCHEMA_COLUMNS[self._called[0]]
        elif self._lists_tables:
            _put_name_first(message.name, fields)
        elif (schema := self._called_metadata) is not None and ROWS in fields:
            fields[ROWS] = without_views(fields[ROWS], schema)
        if STATUS in fields:
            fields[STATUS] = _plain_status(fields[STATUS])
        if message.name == "GetOperationStatus" and ERROR_MESSAGE in fields:
            fields[ERROR_MESSAGE] = _plain(fields[ERROR_MESSAGE])
        return replace(message, fields={RESULT: Value(kind=ThriftType.STRUCT, value=fields)})

    def _forget(self, name: str) -> None:
        """Forget what the last call has closed: the session with all in it, or one operation."""
        if name == CLOSE:
            self._session = None
            self._operations.clear()
            self._listings.clear()
            self._metadata.clear()
        elif closed := _handle(self._called[1].get(HANDLE)):
            self._operations.pop(closed, None)
            self._listings.discard(closed)
            self._metadata.pop(closed, None)

    def _starts_listing(self) -> bool:
        name, fields = self._called
        text = fields.get(STATEMENT)
        return (
            self._asks_as_hive
            and name == "ExecuteStatement"
            and text is not None
            and _LISTING.fullmatch(text.value) is not None
        )

    def _opening(self, asked: Mapping[int, Value]) -> dict[int, Value]:
        """The request for a session: the protocol's version, the user who has logged in, a database."""
        fields = _only(asked, {1: _INT}, handle=False)
        protocol = fields.get(1)
        self._asks_as_hive = protocol is not None and protocol.value == PYHIVE_PROTOCOL
        fields[USER] = Value(kind=_TEXT, value=self._user.encode())
        database = _database(asked.get(CONFIGURATION))
        if database is not None:
            pair = (Value(kind=_TEXT, value=DATABASE), Value(kind=_TEXT, value=database.encode()))
            fields[CONFIGURATION] = Value(kind=ThriftType.MAP, value=(pair,), inner=(_TEXT, _TEXT))
        return fields


def refusal(message: Message, reason: str) -> Message:
    """Write the answer to a call that is not handed on (Thrift's TApplicationException)."""
    unknown_method = 1
    fields = {
        1: Value(kind=_TEXT, value=f"not allowed: {reason}".encode()),
        2: Value(kind=_INT, value=unknown_method),
    }
    return replace(message, type=MessageType.EXCEPTION, fields=fields)


def _put_name_first(name: str, fields: dict[int, Value]) -> None:
    """Swap the first two columns of the rows, or of their description: the database and the table."""
    field_ids = {FETCH: (ROWS, COLUMNS), "GetResultSetMetadata": (SCHEMA, 1)}
    field_id, inner = field_ids.get(name, (0, 0))
    if field_id not in fields or inner not in fields[field_id].value:
        return
    columns = fields[field_id].value[inner]
    first, second, *others = columns.value
    if name != FETCH:
        positions = first.value[POSITION], second.value[POSITION]
        first = replace(first, value={**first.value, POSITION: positions[1]})
        second = replace(second, value={**second.value, POSITION: positions[0]})
    swapped = replace(columns, value=(second, first, *others))
    fields[field_id] = replace(fields[field_id], value={**fields[field_id].value, inner: swapped})


def _database(configuration: Value | None) -> str | None:
    """Find the database that a client asks for, as a name: Spark makes a USE statement of it."""
    if configuration is None or configuration.kind is not ThriftType.MAP:
        return None
    for key, value in configuration.value:
        if key.kind is _TEXT and value.kind is _TEXT and key.value == DATABASE:
            name = _decoded(value.value)
            return name if _NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"
    return None


def _only(
    asked: Mapping[int, Value], kinds: Mapping[int, ThriftType], *, handle: bool = True
) -> dict[int, Value]:
    """Copy the fields of a call that have the expected kinds; others are dropped."""
    wanted = {**kinds, HANDLE: ThriftType.STRUCT} if handle else dict(kinds)
    fields = {field_id: value for field_id, value in asked.items() if field_id in wanted}
    for field_id, value in fields.items():
        # Java's reader takes what it expects for granted: the rest would be read as another call
        texts = value.kind is not ThriftType.LIST or not value.value or value.inner == (_TEXT,)
        if value.kind is not wanted[field_id] or not texts:
            raise RefusedCallError("a field is of the wrong type")
    if handle and HANDLE in fields:
        inner = _only(fields[HANDLE].value, _HANDLE_FIELDS, handle=False)
        ids = _only(_struct(inner.get(1)), _ID, handle=False)
        inner[1] = Value(kind=ThriftType.STRUCT, value=ids)
        fields[HANDLE] = replace(fields[HANDLE], value=inner)
    return fields


def _struct(value: Value | None) -> Mapping[int, Value]:
    if value is None or value.kind is not ThriftType.STRUCT:
        raise RefusedCallError("the call has no request")
    fields: Mapping[int, Value] = value.value
    return fields


def _handle(value: Value | None) -> _Handle | None:
    """Read the handle of a session or an operation: a struct with a struct of two texts in its first field."""
    if value is None or value.kind is not ThriftType.STRUCT:
        return None
    inner = value.value.get(1)
    if inner is None or inner.kind is not ThriftType.STRUCT:
        return None
    guid, secret = inner.value.get(1), inner.value.get(2)
    if guid is None or secret is None or guid.kind is not _TEXT or secret.kind is not _TEXT:
        return None
    return _Handle(guid=guid.value, secret=secret.value)


def _check_patterns(name: str, fields: Mapping[int, Value]) -> None:
    """Refuse what a metadata call may not look for. Raises RefusedCallError."""
    kinds = _OF_SESSION.get(name, {})
    if name not in {*SCHEMA_COLUMNS, "GetFunctions"}:
        return
    for field_id in kinds.keys() & fields.keys():
        pattern = fields[field_id]
        if pattern.kind is _TEXT and _EXPRESSION.search(pattern.value):
            raise RefusedCallError("a pattern has the wildcards % and _, and is no expression")
    if name in {"GetTables", "GetColumns"} and _is_of_views(fields.get(SCHEMA_PATTERN)):
        raise RefusedCallError(f"{GLOBAL_VIEWS}: nothing in it is published")


def _is_of_views(pattern: Value | None) -> bool:
    """Return whether a pattern of schemas is for that of global temporary views alone; `_` may be escaped."""
    return (
        pattern is not None
        and pattern.value.replace(b"\\", b"").strip().lower() == GLOBAL_VIEWS.encode()
    )


def _is_good(status: Value | None) -> bool:
    if status is None or status.kind is not ThriftType.STRUCT:
        return False
    code = status.value.get(STATUS_CODE)
    return code is not None and code.value in GOOD


def _plain_status(status: Value) -> Value:
    """A status without the stack that Hive's server puts beside its message."""
    fields = {k: v for k, v in _struct(status).items() if k != INFO_MESSAGES}
    if ERROR_MESSAGE in fields:
        fields[ERROR_MESSAGE] = _plain(fields[ERROR_MESSAGE])
    return replace(status, value=fields)


def _plain(text: Value) -> Value:
    return (
        replace(text, value=client_text(_decoded(text.value)).encode())
        if text.kind is _TEXT
        else text
    )


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")
