"""A day of a BI user who wants more than to read what is published: nothing gets through.

One server for the module, as a person starts it, with a password file and the key of secrets in its environment. No
broker. What needs no Spark is in tests/sql/serve.
"""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyhive import hive
from pyhive.exc import Error as HiveError
from sqlalchemy import create_engine, inspect
from TCLIService import ttypes as rpc
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportException
from thrift_sasl import TSaslClientTransport

from examples.bi.server import PENSTOCK, BiServer
from penstock.catalog.secrets.crypto import new_key

USER, PASSWORD = "alice", "correct-horse"
OTHER, OTHER_PASSWORD = "bob", "battery-staple"
KEY = new_key()
ENVIRONMENT = {"PENSTOCK_SECRET_KEY": KEY, "KAFKA_PASSWORD": "kafka-pa55word"}
IDLE = 520
SOCKET_TIMEOUT_MS = 5_000
REFUSALS = (HiveError, TException)

SETUP = """
    CREATE TABLE IF NOT EXISTS people (id BIGINT, name STRING) WITH ('connector' = 'delta', 'path' = 'people');
    INSERT INTO people VALUES (1, 'Ann'), (2, 'Bo');
    CREATE TABLE IF NOT EXISTS notes (id BIGINT, text STRING)
      WITH ('connector' = 'filesystem', 'path' = 'notes', 'format' = 'json');
    CREATE TABLE IF NOT EXISTS broken (id BIGINT)
      WITH ('connector' = 'filesystem', 'path' = 'broken', 'format' = 'json');
    CREATE VIEW IF NOT EXISTS names AS SELECT name, '${env:KAFKA_PASSWORD}' AS word FROM people;
"""

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks into /proc"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server, and the folder that it runs in: `private` in it is a Delta table that nobody has published."""

    port: int
    folder: Path

    @property
    def private(self) -> Path:
        """Salaries, with a feed of changes."""
        return self.folder / "private" / "salaries"

    def connect(self, user: str = USER, password: str = PASSWORD, **options: Any) -> Any:
        """Connect as a BI tool does."""
        return hive.connect(
            "127.0.0.1", self.port, username=user, password=password, auth="LDAP", **options
        )

    def ask(self, statement: str, **options: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, in a session of its own."""
        with closing(self.connect(**options)) as connection, connection.cursor() as cursor:
            return rows_of(cursor, statement)


def told(cursor: Any, statement: str) -> str:
    """What the server says of a statement that it refuses; else the rows."""
    try:
        return f"rows: {rows_of(cursor, statement)}"
    except HiveError as error:
        status = getattr(error.args[0], "status", None)
        return str(error if status is None else status.errorMessage)
    except TException as error:
        return str(error)


def rows_of(cursor: Any, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement; gives its rows."""
    cursor.execute(statement)
    return list(cursor.fetchall()) if cursor.description else []


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with tables of two kinds, a view, and a file that cannot be read."""
    folder = tmp_path_factory.mktemp("served")
    for name, line in (("notes", '{"id": 1, "text": "hi"}'), ("broken", '{"id": "no number"}')):
        (folder / name).mkdir()
        (folder / name / "a.json").write_text(f"{line}\n", encoding="utf-8")
    write_deltalake(
        folder / "private" / "salaries",
        pa.table({"who": ["boss"], "salary": [999_999]}),
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    write_deltalake(
        folder / "people",
        pa.table({"id": pa.array([], pa.int64()), "name": pa.array([], pa.string())}),
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    script = folder / "setup.sql"
    script.write_text(SETUP, encoding="utf-8")
    more = ("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        with BiServer(folder, script, {}, (USER, PASSWORD), more) as server:
            add = [str(PENSTOCK), "serve", "users", "add", OTHER, "--file", "users"]
            subprocess.run(
                add, cwd=folder, input=OTHER_PASSWORD, text=True, check=True, capture_output=True
            )
            yield Served(port=server.port, folder=folder)
            assert server.stop() == 0


def test_what_is_published_is_read(served: Served) -> None:
    """Tables of Spark's own, of the split runtime and views, over the ways of asking that Spark knows."""
    with closing(served.connect()) as connection, connection.cursor() as cursor:
        found = {
            query: sorted(rows_of(cursor, query))
            for query in (
                "SELECT name FROM people",
                "SELECT id FROM people WITH ('fs.file.impl' = 'some.Class', 'fs.file.impl.disable.cache' = 'true', "
                "'path' = '/')",
                "SELECT * FROM notes",
                "SELECT word FROM names LIMIT 1",
                "FROM people |> WHERE id = 1 |> SELECT name",
                "WITH p AS (SELECT * FROM people) SELECT (SELECT MAX(id) FROM p)",
                "SELECT table_name FROM information_schema.tables WHERE table_name = 'people'",
            )
        }
        described = rows_of(cursor, "DESCRIBE people")
        shown = rows_of(cursor, "SHOW TABLES IN default")

    assert list(found.values()) == [
        [("Ann",), ("Bo",)],
        [(1,), (2,)],
        [(1, "hi")],
        [("${env:KAFKA_PASSWORD}",)],
        [("Ann",)],
        [(2,)],
        [("people",)],
    ]
    assert [row[0] for row in described] == ["id", "name"]
    assert {row[1] for row in shown} == {"people", "notes", "broken", "names"}


def test_sqlalchemy_lists_tables_by_their_names(served: Served) -> None:
    """As Superset asks for them; a statement of one's own has Spark's columns."""
    engine = create_engine("hive://", creator=served.connect)
    with engine.connect() as connection:
        names = inspect(connection).get_table_names(schema="default")
    engine.dispose()

    assert sorted(names) == ["broken", "names", "notes", "people"]
    assert ("default", "people", False) in served.ask("SHOW TABLES IN default")


@pytest.mark.parametrize("provider", ["env", "system", "sparkconf", "hiveconf", "spark"])
def test_a_variable_in_a_query_is_text(served: Served, provider: str) -> None:
    """The key, a password, the address of the log-in server."""
    names = ("PENSTOCK_SECRET_KEY", "KAFKA_PASSWORD", "hive.server2.authentication.ldap.url")
    texts = tuple(f"${{{provider}:{name}}}" for name in names)
    listed = ", ".join(f"'{text}'" for text in texts)
    escaped = "'$' || '{env:PENSTOCK_SECRET_KEY}'"

    assert served.ask(f"SELECT {listed}") == [texts]
    assert served.ask(f"SELECT {escaped}, '${{spark.master}}'") == [
        ("${env:PENSTOCK_SECRET_KEY}", "${spark.master}")
    ]


def test_no_process_of_spark_s_has_the_key_in_its_environment(served: Served) -> None:
    """Java's and Python's workers: what reads /proc, or the environment, finds nothing."""
    assert served.ask("SELECT id FROM notes") == [(1,)]
    texts = environments(descendants(server_process(served)))

    assert len(texts) > 1, "Java and a Python worker"
    assert [pid for pid, text in texts.items() if KEY.encode() in text] == []


REFUSED: dict[str, list[str]] = {
    "not allowed: people: earlier versions of a table are not published": [
        "SELECT * FROM people VERSION AS OF 0",
        "SELECT * FROM people FOR SYSTEM_VERSION AS OF 0",
        "SELECT * FROM people WITH ('versionAsOf' = '0')",
        "WITH p AS (SELECT * FROM people VERSION AS OF 0) SELECT (SELECT COUNT(*) FROM p)",
        "SELECT 1 WHERE EXISTS (SELECT * FROM people VERSION AS OF 0)",
        "EXECUTE IMMEDIATE 'SELECT * FROM people VERSION AS OF 0'",
    ],
    "not allowed: people: changes of a table are not published": [
        "SELECT * FROM people WITH ('readChangeFeed' = 'true', 'startingVersion' = '0')",
        "SELECT * FROM people WITH ('READCHANGEDATA' = 'true', 'startingVersion' = '0')",
    ],
    "not allowed: people: where the files of a table are is not published": [
        "SELECT _metadata FROM people",
        "SELECT _metadata.file_path FROM people",
        "SELECT p._METADATA.file_name FROM people AS p",
        "SELECT name FROM people WHERE _metadata.file_path LIKE '/%'",
        "SELECT name FROM people ORDER BY _metadata.file_modification_time",
        "SELECT (SELECT MAX(_metadata.file_path) FROM people)",
        "WITH p AS (SELECT _metadata.file_path AS f FROM people) SELECT COUNT(f) FROM p",
        "EXECUTE IMMEDIATE 'SELECT _metadata.file_path FROM people'",
    ],
    "not allowed: input_file_name: where the files of a table are is not published": [
        "SELECT input_file_name() FROM people",
        "SELECT INPUT_FILE_BLOCK_START(), INPUT_FILE_BLOCK_LENGTH() FROM people",
        "SELECT name FROM people WHERE LENGTH(input_file_name()) > 1",
        "SELECT MAX(input_file_name()) OVER (ORDER BY id) FROM people",
    ],
    "[TABLE_OR_VIEW_NOT_FOUND]": [
        "SELECT * FROM delta.`{private}`",
        "SELECT * FROM DELTA.`{private}`",
        "SELECT * FROM parquet.`{private}`",
        "SELECT * FROM json.`/etc/hostname`",
        "SELECT * FROM text.`{folder}/users`",
        "SELECT * FROM binaryFile.`{folder}/users`",
        "SELECT * FROM csv.`file:///etc/passwd`",
        "SELECT * FROM penstock.`people`",
        "SELECT * FROM IDENTIFIER('delta.`{private}`')",
        "SELECT * FROM spark_catalog.delta.`{private}`",
        "EXECUTE IMMEDIATE 'SELECT * FROM delta.`{private}`'",
        "DESCRIBE HISTORY delta.`{private}`",
        "DESCRIBE EXTENDED delta.`{private}`",
        "SHOW COLUMNS IN delta.`{private}`",
        "SHOW PARTITIONS delta.`{private}`",
        "SHOW TBLPROPERTIES delta.`{private}`",
        "SHOW CREATE TABLE delta.`{private}`",
        "ANALYZE TABLE delta.`{private}` COMPUTE STATISTICS",
        "SELECT * FROM information_schema.options",
        "SELECT * FROM information_schema.pipelines",
        "SELECT * FROM information_schema.checkpoints",
        "SELECT * FROM information_schema.functions",
        "VACUUM delta.`{private}`",
    ],
    "not allowed: table_changes_by_path: not on this server": [
        "SELECT * FROM table_changes_by_path('{private}', 0)",
        "SELECT * FROM TABLE_CHANGES_BY_PATH('{private}', 0)",
        "SELECT (SELECT MAX(salary) FROM table_changes_by_path('{private}', 0))",
    ],
    "not allowed: table_changes: not on this server": [
        "SELECT * FROM table_changes('people', 0)",
        "SELECT * FROM table_changes('delta.`{private}`', 0)",
    ],
    "[UNRESOLVABLE_TABLE_VALUED_FUNCTION]": [
        "SELECT * FROM read_files('/etc/hostname')",
    ],
    "not allowed: DescribeDeltaHistoryCommand": [
        "DESCRIBE HISTORY '{private}'",
    ],
    "not allowed: DescribeDeltaDetailCommand": [
        "DESCRIBE DETAIL '{private}'",
        "DESCRIBE DETAIL '/etc'",
        "DESCRIBE DETAIL people",
    ],
    "not allowed: global_temp: nothing in it is published": [
        "SHOW TABLES IN global_temp",
        "SHOW TABLES IN GLOBAL_TEMP",
        "SHOW TABLE EXTENDED IN global_temp LIKE '*'",
        "SHOW VIEWS IN global_temp",
        "USE global_temp",
        "SHOW TABLES IN spark_catalog.global_temp",
    ],
    "{name}: this is not published": [
        "SELECT * FROM {relation}",
        "SELECT (SELECT COUNT(*) FROM {relation})",
        "EXECUTE IMMEDIATE 'SELECT * FROM {relation}'",
        "DESCRIBE {relation}",
        "DESCRIBE QUERY SELECT * FROM {relation}",
        "SHOW COLUMNS IN {relation}",
        "SELECT * FROM `GLOBAL_TEMP`.`{name}`",
        "SELECT * FROM global_temp.`{upper}`",
    ],
    "not allowed: ShowProceduresCommand": [
        "SHOW PROCEDURES",
    ],
    "not allowed: ListJarsCommand": [
        "LIST JARS",
    ],
    "not allowed: SET: ask for one setting, or for all that are known by SET -v": [
        "SET",
    ],
    "this setting is not a client's": [
        "SET spark.driver.extraClassPath",
        "SET spark.penstock.serve.own",
        "SET hive.server2.authentication.ldap.url",
        "SET spark.sql.runSQLOnFiles = true",
        "SET `spark.sql.runSQLOnFiles` = `true`",
        "SET SPARK.SQL.RUNSQLONFILES = true",
        "/* a comment */ SET spark.sql.variable.substitute = true",
        "SET spark.sql.catalog.other = some.Class",
        "SET spark.sql.catalog.spark_catalog = some.Class",
        "SET fs.file.impl = some.Class",
        "SET spark.penstock.serve.own = guessed",
        "SET spark.sql.extensions = some.Class",
        "SET hive.server2.authentication.ldap.url = ldap://127.0.0.1:1",
        "RESET",
        "RESET spark.sql.runSQLOnFiles",
    ],
    "not allowed: CreateVariable": [
        "DECLARE VARIABLE v STRING DEFAULT 'x'",
        "BEGIN DECLARE x INT DEFAULT 1; SELECT x; END",
        "BEGIN DECLARE v STRING DEFAULT 'DROP TABLE people'; EXECUTE IMMEDIATE v; END",
    ],
    "not allowed: DropTable": [
        "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN DROP TABLE people; END; SELECT nothing; END",
        "DROP TABLE people",
    ],
    "not allowed: CreateDataSourceTableCommand": [
        "CREATE TABLE mine (x INT)",
    ],
    "not allowed: CreateTable": [
        "CREATE TABLE mine USING delta LOCATION '{private}'",
    ],
    "not allowed: CreateViewCommand": [
        "CREATE VIEW mine AS SELECT 1",
        "CREATE TEMPORARY VIEW mine AS SELECT 1",
    ],
    "not allowed: CreateTempViewUsing": [
        "CREATE TEMPORARY VIEW mine USING text OPTIONS (path '/etc/hostname')",
    ],
    "not allowed: CreateFunctionCommand": [
        "CREATE TEMPORARY FUNCTION f AS 'some.Class' USING JAR '/tmp/x.jar'",
    ],
    "not allowed: CreateSQLFunctionCommand": [
        "CREATE FUNCTION f(x INT) RETURNS INT RETURN x",
    ],
    "not allowed: CreateNamespace": [
        "CREATE DATABASE mine LOCATION '{folder}/mine'",
    ],
    "not allowed: AddJarsCommand": [
        "ADD JAR '/tmp/x.jar'",
    ],
    "not allowed: AddFilesCommand": [
        "ADD FILE '/etc/hostname'",
    ],
    "not allowed: LoadData": [
        "LOAD DATA LOCAL INPATH '/etc/hostname' INTO TABLE people",
    ],
    "not allowed: AppendData": [
        "INSERT INTO people VALUES (3, 'x')",
        "EXECUTE IMMEDIATE 'INSERT INTO people VALUES (3, ''x'')'",
        "BEGIN INSERT INTO people VALUES (9, 'x'); END",
        "FROM people INSERT INTO people SELECT *",
        "WITH x AS (SELECT 1 AS id, 'a' AS name) INSERT INTO people SELECT * FROM x",
    ],
    "not allowed: InsertIntoDataSourceDirCommand": [
        "INSERT OVERWRITE DIRECTORY '{folder}/out' USING csv SELECT 1",
        "INSERT OVERWRITE LOCAL DIRECTORY '{folder}/out' USING csv SELECT 1",
    ],
    "not allowed: DeleteCommand": [
        "DELETE FROM people",
    ],
    "not allowed: OptimizeTableCommand": [
        "OPTIMIZE people",
    ],
    "not allowed: CacheTable": [
        "CACHE TABLE people",
    ],
    "not allowed: RefreshTable": [
        "REFRESH TABLE people",
    ],
    "[UNRESOLVED_ROUTINE]": [
        "SELECT java_method('java.lang.System', 'getenv', 'KAFKA_PASSWORD')",
        "SELECT reflect('java.lang.System', 'getenv', 'KAFKA_PASSWORD')",
        "SELECT try_reflect('java.lang.System', 'getenv', 'KAFKA_PASSWORD')",
        "SELECT from_protobuf(X'00', 'Message', '/etc/hostname')",
        "SELECT from_xml('<a/>', 'b INT', map('rowValidationXSDPath', '/etc/hostname'))",
        "SELECT schema_of_xml('<a/>', map('rowValidationXSDPath', 'http://127.0.0.1:1/x'))",
        "SELECT from_avro(X'00', '\"int\"', map('avroSchemaUrl', 'file:///etc/hostname'))",
        "SELECT schema_of_avro('\"int\"')",
    ],
    "not allowed: TRANSFORM: this server runs no programs": [
        "SELECT TRANSFORM (x) USING 'cat /etc/hostname' FROM (SELECT 1 AS x)",
        "SELECT 1 WHERE EXISTS (SELECT TRANSFORM (x) USING 'cat' FROM (SELECT 1 AS x))",
    ],
    "not allowed: ShowCreateTableAsSerdeCommand": [
        "SHOW CREATE TABLE names AS SERDE",
    ],
    "not allowed: TruncateDeltaTableCommand": [
        "TRUNCATE TABLE people",
    ],
    "not allowed: UpdateCommand": [
        "UPDATE people SET name = 'x'",
    ],
    "not allowed: MergeIntoCommand": [
        "MERGE INTO people USING (SELECT 1 AS i) s ON people.id = s.i WHEN MATCHED THEN DELETE",
    ],
    "not allowed: AddColumns": [
        "ALTER TABLE people ADD COLUMN x INT",
    ],
    "not allowed: AlterViewAsCommand": [
        "ALTER VIEW names AS SELECT 1",
    ],
    "not allowed: CommentOnTable": [
        "COMMENT ON TABLE people IS 'x'",
    ],
    "not allowed: RestoreTableCommand": [
        "RESTORE TABLE people TO VERSION AS OF 0",
    ],
    "not allowed: CreateDeltaTableCommand": [
        "CREATE TABLE mine SHALLOW CLONE people",
    ],
    "not allowed: DeltaGenerateCommand": [
        "GENERATE symlink_format_manifest FOR TABLE people",
    ],
    "not allowed: ConvertToDeltaCommand": [
        "CONVERT TO DELTA parquet.`{private}`",
    ],
    "not allowed: DeltaReorgTableCommand": [
        "REORG TABLE people APPLY (PURGE)",
    ],
    "not allowed: VacuumTableCommand": [
        "VACUUM people",
    ],
    "not allowed: AnalyzeTable": [
        "ANALYZE TABLE people COMPUTE STATISTICS",
    ],
    "not allowed: UncacheTable": [
        "UNCACHE TABLE people",
    ],
    "not allowed: ClearCacheCommand$": [
        "CLEAR CACHE",
    ],
    "not allowed: RefreshResource": [
        "REFRESH '/'",
    ],
    "not allowed: RepairTable": [
        "MSCK REPAIR TABLE people",
    ],
    "not allowed: DropNamespace": [
        "DROP DATABASE default CASCADE",
    ],
    "not allowed: ListFilesCommand": [
        "LIST FILES",
    ],
    "not allowed: ListArchivesCommand": [
        "LIST ARCHIVES",
    ],
    "not allowed: CreateStreamingTableAsSelect": [
        "CREATE STREAMING TABLE x AS SELECT 1",
    ],
    "not allowed: CreateFlowCommand": [
        "CREATE FLOW f AS INSERT INTO people BY NAME SELECT 1 AS id",
    ],
    "not allowed: CacheTableAsSelect": [
        "CACHE LAZY TABLE x AS SELECT 1",
    ],
}
"""Statements by a word of the reason that each is refused for: a failure for another reason is none."""


def test_nothing_else_is_read_and_nothing_is_changed(served: Served) -> None:
    """Each statement is tried for itself, in one session; what is there is there afterwards, and nothing more."""
    with closing(served.connect()) as connection, connection.cursor() as cursor:
        ((created, *_),) = rows_of(cursor, "SHOW CREATE TABLE notes")
        name = created.split("global_temp.`")[1].split("`")[0]
        relation = f"global_temp.`{name}`"
        places = {"private": served.private, "folder": served.folder, "relation": relation}
        places |= {"name": name, "upper": name.upper()}
        wrong = [
            (text, said)
            for reason, statements in REFUSED.items()
            for text in (statement.format(**places) for statement in statements)
            if reason.format(**places) not in (said := told(cursor, text))
        ]
        explained = rows_of(cursor, f"EXPLAIN SELECT * FROM {relation}")
        people = rows_of(cursor, "SELECT COUNT(*) FROM people")

    assert wrong == []
    assert DeltaTable(served.private).to_pyarrow_table().num_rows == 1, "there is something to read"
    assert "not allowed" in explained[1][0]
    assert people == [(2,)]
    assert not (served.folder / "out").exists()
    assert not (served.folder / "mine").exists()


def test_lists_of_tables_hold_nothing_of_the_server_s_own(served: Served) -> None:
    """Global temporary views, which Spark adds to whatever fits: not by `%`, by none, nor by a pattern for them."""
    with closing(served.connect()) as connection:
        client, handle = connection.client, connection.sessionHandle

        def listed(name: str, schema: str | None) -> set[str]:
            more = {"GetTables": (None,), "GetColumns": (None, None), "GetSchemas": ()}[name]
            asked = getattr(rpc, f"T{name}Req")(handle, None, schema, *more)
            operation = getattr(client, name)(asked).operationHandle
            fetched = client.FetchResults(rpc.TFetchResultsReq(operation, 0, 1000))
            assert fetched.status.statusCode == rpc.TStatusCode.SUCCESS_STATUS
            return {
                value for column in fetched.results.columns[:3] for value in column.stringVal.values
            }

        found = {
            (name, schema): listed(name, schema)
            for name in ("GetTables", "GetColumns", "GetSchemas")
            for schema in ("%", None, "_lobal_temp", "global.temp")
        }

    assert "people" in found["GetTables", "%"] & found["GetColumns", None]
    assert "information_schema" in found["GetSchemas", "%"]
    names = {name for each in found.values() for name in each}
    assert [name for name in names if name.startswith(("penstock_", "global"))] == []


@pytest.mark.parametrize(
    "spelling", ["set:system:", "SET:SYSTEM:", "set:hiveconf:", "set:hivevar:"]
)
def test_the_settings_of_a_session_do_not_move_the_log_in(served: Served, spelling: str) -> None:
    """A directory of the attacker's is asked nothing: not at the next log-in, not by anybody."""
    with socket.create_server(("127.0.0.1", 0)) as directory:
        directory.settimeout(1.0)
        url = f"ldap://127.0.0.1:{directory.getsockname()[1]}"
        setting = {f"{spelling}hive.server2.authentication.ldap.url": url}
        assert served.ask("SELECT 1", configuration=setting) == [(1,)]
        with pytest.raises(TTransportException, match="Error validating the login"):
            served.connect("mallory", "anything")
        assert served.ask("SELECT current_user()") == [(USER,)]
        with pytest.raises(TimeoutError):
            directory.accept()


def test_the_settings_of_a_session_load_no_class(served: Served) -> None:
    """A catalog over jdbc would make a Derby database on the server's disk, before any plan is looked at."""
    place = served.folder / "evil"
    catalog = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    names = {
        "": catalog,
        ".url": f"jdbc:derby:{place};create=true",
        ".driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    setting = {f"set:hiveconf:spark.sql.catalog.evil{key}": value for key, value in names.items()}
    with (
        closing(served.connect(configuration=setting)) as connection,
        connection.cursor() as cursor,
    ):
        for statement in ("SELECT * FROM evil.a.b", "USE evil", "SHOW TABLES IN evil.a"):
            with pytest.raises(REFUSALS):
                cursor.execute(statement)

    assert not place.exists()


def test_the_settings_of_a_statement_are_left_out(served: Served) -> None:
    """`confOverlay` has no text that could be refused."""
    with closing(served.connect()) as connection:
        overlay = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.runSQLOnFiles": "true"}
        request = rpc.TExecuteStatementReq(
            connection.sessionHandle, "SELECT * FROM text.`/etc/hostname`", overlay
        )
        refused = connection.client.ExecuteStatement(request)
        rows = rows_of(connection.cursor(), "SELECT current_timezone()")

    assert refused.status.statusCode == rpc.TStatusCode.ERROR_STATUS
    assert rows == [("UTC",)]


def test_sessions_and_operations_of_others_are_out_of_reach(served: Served) -> None:
    """Bob has alice's handles, whole: he reads, cancels and closes nothing with them; nor has a connection two sessions."""
    with (
        closing(served.connect()) as mine,
        closing(served.connect(OTHER, OTHER_PASSWORD)) as theirs,
    ):
        cursor = mine.cursor()
        cursor.execute("SELECT name FROM people ORDER BY name")
        handle = cursor._operationHandle
        client = theirs.client
        for call in (
            lambda: client.FetchResults(rpc.TFetchResultsReq(handle, 0, 100)),
            lambda: client.CancelOperation(rpc.TCancelOperationReq(handle)),
            lambda: client.CloseOperation(rpc.TCloseOperationReq(handle)),
            lambda: client.CloseSession(rpc.TCloseSessionReq(mine.sessionHandle)),
            lambda: client.ExecuteStatement(
                rpc.TExecuteStatementReq(mine.sessionHandle, "SELECT 1")
            ),
            lambda: client.GetDelegationToken(
                rpc.TGetDelegationTokenReq(theirs.sessionHandle, USER, USER)
            ),
            lambda: client.OpenSession(rpc.TOpenSessionReq(username=USER, password=PASSWORD)),
        ):
            with pytest.raises(TException, match="not allowed"):
                call()
        rows = cursor.fetchall()

    assert rows == [("Ann",), ("Bo",)]


def test_nobody_acts_for_another_user(served: Served) -> None:
    """Neither by the session's user nor by the settings for proxies."""
    for setting in ({"hive.server2.proxy.user": OTHER}, {"impersonation": OTHER}):
        assert served.ask("SELECT current_user()", configuration=setting) == [(USER,)]


def test_errors_show_no_code(served: Served) -> None:
    """What is wrong with a record is told, and where; no stack of Python's or Java's is."""
    with pytest.raises(HiveError) as caught:
        served.ask("SELECT * FROM broken")
    said = str(caught.value)

    assert "not a BIGINT" in said
    assert not [word for word in ("Traceback", ".py", "\tat ", ".scala:") if word in said]


def test_idle_connections_and_nonsense_keep_nobody_out(served: Served) -> None:
    """Five hundred that say nothing, some that send rubbish, a flood of guesses at another name."""
    with ExitStack() as stack:
        for number in range(IDLE):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            if number % 10 == 0:
                with suppress(OSError):
                    idle.sendall(b"\xff" * 64)
        assert served.ask("SELECT 1") == [(1,)]

    def guess() -> None:
        with suppress(TException, OSError), closing(served.connect("carol", "guess")):
            pytest.fail("carol is nobody")

    guesses = [threading.Thread(target=guess) for _ in range(12)]
    for each in guesses:
        each.start()
    assert served.ask("SELECT 1") == [(1,)]
    for each in guesses:
        each.join()


def test_the_ports_behind_the_server_let_nobody_in(served: Served) -> None:
    """Another account of the machine finds Spark's own port: a user's password is not the one that it wants."""
    java = [pid for pid in descendants(server_process(served)) if program(pid) == "java"]
    ports = {port for pid in java for port in listening(pid)} - {served.port}
    entered = []
    for port in ports:
        with suppress(*REFUSALS, OSError, EOFError):
            transport = TSocket("127.0.0.1", port)
            transport.setTimeout(SOCKET_TIMEOUT_MS)

            def login() -> Any:
                return hive.get_installed_sasl(
                    host="127.0.0.1", sasl_auth="PLAIN", username=USER, password=PASSWORD
                )

            hive.connect(thrift_transport=TSaslClientTransport(login, "PLAIN", transport)).close()
            entered.append(port)

    assert ports, "Spark listens somewhere"
    assert entered == []


# --- processes ---


def server_process(served: Served) -> int:
    """The process of `penstock serve` in the server's folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                command = (entry / "cmdline").read_bytes().split(b"\0")
                if b"serve" in command and (entry / "cwd").resolve() == served.folder.resolve():
                    return int(entry.name)
    raise AssertionError("the server has no process")


def descendants(pid: int) -> list[int]:
    """The processes that a process has begun, and those that they have."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def environments(pids: list[int]) -> dict[int, bytes]:
    """The environment of each process that is still there when it is read."""
    found = {}
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            found[pid] = Path(f"/proc/{pid}/environ").read_bytes()
    return found


def program(pid: int) -> str:
    """The name of a process's program."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return ""


def listening(pid: int) -> set[int]:
    """The ports that a process listens on."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            sockets.add(str(entry.readlink()).removeprefix("socket:[").removesuffix("]"))
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text(encoding="utf-8").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
