"""Which calls reach Spark's server, and what is left of them."""

from __future__ import annotations

from typing import Any

import pytest
from TCLIService import TCLIService
from TCLIService import ttypes as rpc
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from penstock.catalog.errors import BadRecordError, encode_failure
from penstock.sql.serve.hive_calls import (
    MAX_LENGTH,
    MAX_OPERATIONS,
    MAX_STATEMENT_BYTES,
    ConnectionCalls,
    RefusedCallError,
    client_text,
    refusal,
)
from penstock.sql.serve.thrift_codec import (
    Message,
    MessageType,
    ThriftType,
    Value,
    read_message,
    write_message,
)

OURS = rpc.TSessionHandle(rpc.THandleIdentifier(b"a" * 16, b"b" * 16))
THEIRS = rpc.TSessionHandle(rpc.THandleIdentifier(b"a" * 16, b"c" * 16))
GOOD = rpc.TStatus(0)


def operation(name: bytes) -> rpc.TOperationHandle:
    """An operation's handle."""
    return rpc.TOperationHandle(rpc.THandleIdentifier(name * 16, b"s" * 16), 0, True)


def call(name: str, request: Any) -> Message:
    """A client's call."""
    buffer = TMemoryBuffer()
    getattr(TCLIService.Client(TBinaryProtocol(buffer)), f"send_{name}")(request)
    return read_message(buffer.getvalue())


def sent(calls: ConnectionCalls, name: str, request: Any) -> Any:
    """What Spark's server reads of a client's call."""
    message = calls.request(call(name, request))
    buffer = TMemoryBuffer(write_message(message))
    protocol = TBinaryProtocol(buffer)
    protocol.readMessageBegin()
    arguments = getattr(TCLIService, f"{name}_args")()
    arguments.read(protocol)
    return arguments.req


def answered(calls: ConnectionCalls, name: str, response: Any) -> Any:
    """What a client reads of an answer of Spark's server."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(name, MessageType.REPLY, 0)
    getattr(TCLIService, f"{name}_result")(response).write(protocol)
    message = calls.response(read_message(buffer.getvalue()))
    client = TCLIService.Client(TBinaryProtocol(TMemoryBuffer(write_message(message))))
    return getattr(client, f"recv_{name}")()


@pytest.fixture
def calls() -> ConnectionCalls:
    """The calls of alice's connection, with a session."""
    calls = ConnectionCalls("alice")
    sent(calls, "OpenSession", rpc.TOpenSessionReq(9))
    answered(calls, "OpenSession", rpc.TOpenSessionResp(GOOD, 9, OURS, {}))
    return calls


@pytest.mark.parametrize(
    "key",
    [
        "set:system:hive.server2.authentication.ldap.url",
        "SET:SYSTEM:java.security.policy",
        "set:hiveconf:spark.sql.catalog.evil",
        "set:hivevar:x",
        "set:env:PATH",
        "set:metaconf:x",
        "hive.server2.proxy.user",
        "impersonation",
        "use:catalog",
        "USE:DATABASE",
        "spark.sql.runSQLOnFiles",
        "\x00use:database",
    ],
)
def test_a_session_is_opened_without_a_client_s_settings(key: str) -> None:
    """Only the database is handed on; the user is who has logged in, and no password goes anywhere."""
    request = rpc.TOpenSessionReq(9, "mallory", "secret", {key: "evil", "use:database": "star"})
    opened = sent(ConnectionCalls("alice"), "OpenSession", request)

    assert opened.configuration == {"use:database": "star"}
    assert (opened.client_protocol, opened.username, opened.password) == (9, "alice", None)


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ("star", "star"),
        ("spark_catalog.star", "spark_catalog.star"),
        ("größe", "größe"),
        ("a b", "`a b`"),
        ("x; DROP TABLE y", "`x; DROP TABLE y`"),
        ("a` UNION", "`a`` UNION`"),
        ("", "``"),
    ],
)
def test_a_database_is_a_name(asked: str, used: str) -> None:
    """Spark puts it into a statement as it is."""
    request = rpc.TOpenSessionReq(9, configuration={"use:database": asked})

    assert sent(ConnectionCalls("alice"), "OpenSession", request).configuration == {
        "use:database": used
    }


def test_a_connection_has_one_session_at_a_time(calls: ConnectionCalls) -> None:
    """Spark would never close the first of two."""
    with pytest.raises(RefusedCallError, match="has a session"):
        sent(calls, "OpenSession", rpc.TOpenSessionReq(9))
    sent(calls, "CloseSession", rpc.TCloseSessionReq(OURS))
    answered(calls, "CloseSession", rpc.TCloseSessionResp(GOOD))

    assert sent(calls, "OpenSession", rpc.TOpenSessionReq(9)).username == "alice"


def test_a_statement_has_no_settings_of_its_own(calls: ConnectionCalls) -> None:
    """The text, whether to wait, and for how long are handed on."""
    request = rpc.TExecuteStatementReq(OURS, "SELECT 1", {"spark.sql.catalog.x": "y"}, True, 5)
    found = sent(calls, "ExecuteStatement", request)

    assert (found.statement, found.confOverlay) == ("SELECT 1", None)
    assert (found.runAsync, found.queryTimeout, found.sessionHandle) == (True, 5, OURS)


def test_handles_of_other_connections_are_refused(calls: ConnectionCalls) -> None:
    """Also one that was guessed or stolen, and half of one's own."""
    with pytest.raises(RefusedCallError, match="no session of this"):
        sent(calls, "ExecuteStatement", rpc.TExecuteStatementReq(THEIRS, "SELECT 1"))
    with pytest.raises(RefusedCallError, match="no session of this"):
        sent(calls, "CloseSession", rpc.TCloseSessionReq(THEIRS))
    for name, request in (
        ("CancelOperation", rpc.TCancelOperationReq(operation(b"x"))),
        ("CloseOperation", rpc.TCloseOperationReq(operation(b"x"))),
        ("FetchResults", rpc.TFetchResultsReq(operation(b"x"), 0, 10)),
        ("GetOperationStatus", rpc.TGetOperationStatusReq(operation(b"x"))),
        ("GetResultSetMetadata", rpc.TGetResultSetMetadataReq(operation(b"x"))),
    ):
        with pytest.raises(RefusedCallError, match="no operation of this"):
            sent(calls, name, request)


def test_an_operation_is_its_connection_s_until_it_is_closed(calls: ConnectionCalls) -> None:
    """Of statements and of metadata calls."""
    sent(calls, "GetTables", rpc.TGetTablesReq(OURS, None, "%", "%", ["TABLE"]))
    answered(calls, "GetTables", rpc.TGetTablesResp(GOOD, operation(b"t")))
    fetched = sent(calls, "FetchResults", rpc.TFetchResultsReq(operation(b"t"), 4, 10))
    sent(calls, "CloseOperation", rpc.TCloseOperationReq(operation(b"t")))
    answered(calls, "CloseOperation", rpc.TCloseOperationResp(GOOD))

    assert fetched.operationHandle == operation(b"t")
    with pytest.raises(RefusedCallError):
        sent(calls, "FetchResults", rpc.TFetchResultsReq(operation(b"t"), 0, 10))


@pytest.mark.parametrize("schema", ["global_temp", "GLOBAL_TEMP", "global\\_temp"])
def test_the_schema_of_temporary_views_is_not_listed(calls: ConnectionCalls, schema: str) -> None:
    """Names of the process itself are in it."""
    with pytest.raises(RefusedCallError, match="nothing in it is published"):
        sent(calls, "GetTables", rpc.TGetTablesReq(OURS, None, schema, "%", ["VIEW"]))
    with pytest.raises(RefusedCallError, match="nothing in it is published"):
        sent(calls, "GetColumns", rpc.TGetColumnsReq(OURS, None, schema, "%", "%"))

    assert sent(calls, "GetTables", rpc.TGetTablesReq(OURS, None, "star", "%", ["TABLE"]))


def text_column(*texts: str | None) -> rpc.TColumn:
    """A column of texts."""
    nulls = sum(1 << place for place, text in enumerate(texts) if text is None)
    bits = nulls.to_bytes((len(texts) + 7) // 8, "little")
    return rpc.TColumn(stringVal=rpc.TStringColumn([text or "" for text in texts], bits))


SCHEMAS = ("default", "global_temp", "star", "star", "GLOBAL_TEMP", "star", "star", "star", "star")
TABLES = ("a", "penstock_1", "b", None, "penstock_2", "c", "d", "e", None)


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("GetTables", rpc.TGetTablesReq(OURS, None, "%", "%", ["VIEW"])),
        ("GetColumns", rpc.TGetColumnsReq(OURS, None, "_lobal_temp", "%", "%")),
    ],
)
@pytest.mark.parametrize("in_columns", [True, False])
def test_lists_of_all_schemas_leave_temporary_views_out(
    calls: ConnectionCalls, name: str, request_: Any, in_columns: bool
) -> None:
    """Spark adds them to every pattern that fits, as columns or, in old protocols, as rows."""
    sent(calls, name, request_)
    answered(calls, name, getattr(rpc, f"T{name}Resp")(GOOD, operation(b"t")))
    sent(calls, "FetchResults", rpc.TFetchResultsReq(operation(b"t"), 0, 100))
    columns = [text_column(*[""] * len(SCHEMAS)), text_column(*SCHEMAS), text_column(*TABLES)]
    rows = [
        rpc.TRow([rpc.TColumnValue(stringVal=rpc.TStringValue(each)) for each in ("", *pair)])
        for pair in zip(SCHEMAS, TABLES, strict=True)
    ]
    row_set = rpc.TRowSet(0, [] if in_columns else rows, columns if in_columns else None)
    assert calls.changes_rows
    found = answered(calls, "FetchResults", rpc.TFetchResultsResp(GOOD, False, row_set)).results

    if in_columns:
        assert found.columns[1:] == [
            text_column("default", *["star"] * 6),
            text_column("a", "b", None, "c", "d", "e", None),
        ]
    else:
        assert [row.colVals[2].stringVal.value for row in found.rows] == [
            *("a", "b", None, "c", "d", "e", None)
        ]


def test_the_schema_of_temporary_views_is_none_of_the_schemas(calls: ConnectionCalls) -> None:
    """Its name stands in the first column there."""
    sent(calls, "GetSchemas", rpc.TGetSchemasReq(OURS))
    answered(calls, "GetSchemas", rpc.TGetSchemasResp(GOOD, operation(b"t")))
    sent(calls, "FetchResults", rpc.TFetchResultsReq(operation(b"t"), 0, 100))
    row_set = rpc.TRowSet(0, [], [text_column("default", "global_temp"), text_column("", "")])
    found = answered(calls, "FetchResults", rpc.TFetchResultsResp(GOOD, False, row_set)).results

    assert found.columns == [text_column("default"), text_column("")]


@pytest.mark.parametrize("pattern", ["(.|.)*x", "global_temp|star", "[a-z]%", "a{1,9}", "%+"])
def test_a_pattern_is_no_regular_expression(calls: ConnectionCalls, pattern: str) -> None:
    """Spark makes one of it: it would find what has another name, or take years in a thread that nobody stops."""
    for name, request in (
        ("GetSchemas", rpc.TGetSchemasReq(OURS, None, pattern)),
        ("GetTables", rpc.TGetTablesReq(OURS, None, "%", pattern, ["TABLE"])),
        ("GetColumns", rpc.TGetColumnsReq(OURS, None, "%", "%", pattern)),
        ("GetFunctions", rpc.TGetFunctionsReq(OURS, None, pattern, "%")),
    ):
        with pytest.raises(RefusedCallError, match="is no expression"):
            sent(calls, name, request)

    assert sent(calls, "GetTables", rpc.TGetTablesReq(OURS, None, "s%", "a\\_b$c.d*", ["TABLE"]))


def test_a_handle_goes_to_spark_as_spark_gave_it(calls: ConnectionCalls) -> None:
    """It knows operations by their type too: with another one, a close would find nothing."""
    sent(calls, "GetCatalogs", rpc.TGetCatalogsReq(OURS))
    answered(calls, "GetCatalogs", rpc.TGetCatalogsResp(GOOD, operation(b"t")))
    other = rpc.TOperationHandle(operation(b"t").operationId, 5, False, 2.0)
    closed = sent(calls, "CloseOperation", rpc.TCloseOperationReq(other))

    assert closed.operationHandle == operation(b"t")


def test_what_spark_did_not_close_is_counted_on(calls: ConnectionCalls) -> None:
    """An operation, and a session with its operations: Spark has them still."""
    bad = rpc.TStatus(3, errorMessage="no")
    sent(calls, "GetCatalogs", rpc.TGetCatalogsReq(OURS))
    answered(calls, "GetCatalogs", rpc.TGetCatalogsResp(GOOD, operation(b"t")))
    sent(calls, "CloseOperation", rpc.TCloseOperationReq(operation(b"t")))
    answered(calls, "CloseOperation", rpc.TCloseOperationResp(bad))
    sent(calls, "CloseSession", rpc.TCloseSessionReq(OURS))
    answered(calls, "CloseSession", rpc.TCloseSessionResp(bad))

    with pytest.raises(RefusedCallError, match="has a session"):
        sent(calls, "OpenSession", rpc.TOpenSessionReq(9))
    assert sent(calls, "FetchResults", rpc.TFetchResultsReq(operation(b"t"), 0, 10))


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("GetDelegationToken", rpc.TGetDelegationTokenReq(OURS, "alice", "alice")),
        ("CancelDelegationToken", rpc.TCancelDelegationTokenReq(OURS, "x")),
        ("RenewDelegationToken", rpc.TRenewDelegationTokenReq(OURS, "x")),
    ],
)
def test_delegation_tokens_are_refused(calls: ConnectionCalls, name: str, request_: Any) -> None:
    """As is every call that is not known here."""
    with pytest.raises(RefusedCallError, match=f"does not take {name}"):
        calls.request(call(name, request_))


def test_a_field_of_another_type_is_refused(calls: ConnectionCalls) -> None:
    """Java's reader would read what follows as something else, another call for one."""
    hidden = Value(
        kind=ThriftType.LIST, value=(Value(kind=ThriftType.I32, value=1),), inner=(ThriftType.I32,)
    )
    tables = call("GetTables", rpc.TGetTablesReq(OURS, None, "%", "%", ["TABLE"]))
    asked = tables.fields[1]
    asked.value[5] = hidden
    with pytest.raises(RefusedCallError, match="wrong type"):
        calls.request(tables)
    asked.value[5] = Value(kind=ThriftType.I64, value=1)

    with pytest.raises(RefusedCallError, match="wrong type"):
        calls.request(tables)


def test_statements_and_operations_are_bounded(calls: ConnectionCalls) -> None:
    """Spark keeps the rows of each operation until it is closed."""
    with pytest.raises(RefusedCallError, match="bytes"):
        sent(
            calls,
            "ExecuteStatement",
            rpc.TExecuteStatementReq(OURS, "x" * (MAX_STATEMENT_BYTES + 1)),
        )
    for number in range(MAX_OPERATIONS):
        handle = rpc.TOperationHandle(rpc.THandleIdentifier(b"%016d" % number, b"s" * 16), 0, True)
        answered(calls, "GetCatalogs", rpc.TGetCatalogsResp(GOOD, handle))

    with pytest.raises(RefusedCallError, match="open statements"):
        sent(calls, "GetCatalogs", rpc.TGetCatalogsReq(OURS))


def test_errors_come_without_stacks(calls: ConnectionCalls) -> None:
    """Neither Java's, which stand beside the message, nor Python's, which are in it."""
    text = 'PythonException: \nTraceback (most recent call last):\n  File "/srv/x.py", line 1\n    f()\nKeyError: 1'
    bad = rpc.TStatus(3, ["*org.apache...:1:/srv"], "42000", 1, text)
    response = answered(calls, "ExecuteStatement", rpc.TExecuteStatementResp(bad))
    state = answered(
        calls, "GetOperationStatus", rpc.TGetOperationStatusResp(GOOD, 5, "42000", 1, text)
    )

    assert response.status.infoMessages is None
    assert response.status.errorMessage == state.errorMessage == "PythonException: \nKeyError: 1"


def test_a_refusal_answers_the_call(calls: ConnectionCalls) -> None:
    """As an exception of Thrift's, with the reason."""
    asked = call("GetCatalogs", rpc.TGetCatalogsReq(THEIRS))
    answer = refusal(asked, "why")

    assert (answer.type, answer.number) == (MessageType.EXCEPTION, asked.number)
    assert answer.fields[1].value == b"not allowed: why"


def texts(*values: str) -> rpc.TColumn:
    """A column of texts."""
    return rpc.TColumn(stringVal=rpc.TStringColumn(list(values), b"\0"))


@pytest.mark.parametrize(
    ("protocol", "statement", "first"),
    [
        (5, "SHOW TABLES IN `star`", "orders"),
        (5, "SHOW TABLES", "orders"),
        (5, "SHOW TABLES IN star", "star"),
        (5, "SELECT namespace, tableName FROM t", "star"),
        (9, "SHOW TABLES IN `star`", "star"),
    ],
)
def test_sqlalchemy_finds_the_names_of_tables_in_the_first_column(
    protocol: int, statement: str, first: str
) -> None:
    """Hive has no other column; everybody else gets Spark's columns in Spark's order."""
    calls = ConnectionCalls("alice")
    sent(calls, "OpenSession", rpc.TOpenSessionReq(protocol))
    answered(calls, "OpenSession", rpc.TOpenSessionResp(GOOD, protocol, OURS, {}))
    sent(calls, "ExecuteStatement", rpc.TExecuteStatementReq(OURS, statement))
    answered(calls, "ExecuteStatement", rpc.TExecuteStatementResp(GOOD, operation(b"t")))
    sent(calls, "GetResultSetMetadata", rpc.TGetResultSetMetadataReq(operation(b"t")))
    kind = rpc.TTypeDesc([rpc.TTypeEntry(rpc.TPrimitiveTypeEntry(rpc.TTypeId.STRING_TYPE))])
    names = ("namespace", "tableName", "isTemporary")
    schema = rpc.TTableSchema([rpc.TColumnDesc(n, kind, at) for at, n in enumerate(names, 1)])
    described = answered(calls, "GetResultSetMetadata", rpc.TGetResultSetMetadataResp(GOOD, schema))
    sent(calls, "FetchResults", rpc.TFetchResultsReq(operation(b"t"), 0, 10))
    rows = rpc.TRowSet(0, [], [texts("star"), texts("orders"), texts("false")])
    fetched = answered(calls, "FetchResults", rpc.TFetchResultsResp(GOOD, False, rows))

    assert fetched.results.columns[0].stringVal.values == [first]
    assert (described.schema.columns[0].columnName == "tableName") == (first == "orders")
    assert [column.position for column in described.schema.columns] == [1, 2, 3]
    assert calls.changes_rows == (first == "orders")


# --- what clients are told of errors ---


PYTHON = """Job aborted due to stage failure: Task 0 failed: org.apache.spark.api.python.PythonException:
Traceback (most recent call last):
  File "/srv/app/.venv/lib/python3.11/site-packages/pyspark/worker.py", line 3000, in main
    process()
  File "/srv/app/pipeline.py", line 12, in f
    raise ValueError("no such thing")
ValueError: no such thing

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:561)
\tat java.base/java.lang.Thread.run(Thread.java:840)
\t... 3 more
Driver stacktrace:"""


def test_stacks_of_python_and_java_are_left_out() -> None:
    """What went wrong stays."""
    told = client_text(PYTHON)

    assert "ValueError: no such thing" in told
    assert "/srv" not in told
    assert "PythonRunner" not in told
    assert "Thread" not in told


def test_an_error_of_penstock_s_is_its_message_and_hint() -> None:
    """Whatever Spark has put around it."""
    error = BadRecordError("row 3 of notes cannot be read", hint="set 'bad-records'")

    assert (
        client_text(f"Task failed: {encode_failure(error)}\n{PYTHON}")
        == "row 3 of notes cannot be read; set 'bad-records'"
    )


def test_a_long_error_is_cut() -> None:
    """A plan of a thousand columns is no message."""
    assert len(client_text("x" * 100_000)) == MAX_LENGTH
