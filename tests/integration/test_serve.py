"""`penstock serve` as a BI tool meets it: the star schema of examples/bi, over JDBC and PyHive, while a pipeline writes.

One broker, one server and one pipeline for the whole module. The server speaks plain TCP or TLS, not both: the server
of most tests speaks TLS, which beeline's driver and PyHive both take.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyspark
import pytest
from pyhive import hive
from pyhive.exc import OperationalError
from sqlalchemy import create_engine, inspect
from TCLIService import ttypes as rpc
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TTransportException
from thrift_sasl import TSaslClientTransport

from examples.bi.dashboard import COMPLETE, Dashboard
from examples.bi.generator import Shop, customer_records, order_records, product_records
from examples.bi.server import BiServer
from penstock.connector.jvm.java import find_java
from tests.delta_tables import read_delta
from tests.integration.pipeline import wait_until
from tests.sql.serve.test_tls import write_pem

if TYPE_CHECKING:
    from tests.kafka_server import KafkaServer

ROOT = Path(__file__).resolve().parents[2]
STAR = ROOT / "examples" / "bi" / "star.sql"
USER, PASSWORD = "alice", "correct-horse"
SHOP = Shop(orders=3_000, customers=50)
QUERIES = 50
FIRST_ROWS_S = 240.0

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(1200)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server, and the certificate by which its clients know it."""

    port: int
    certificate: Path
    project: Path
    write_orders: Callable[[int, int], None]

    def connect(self, user: str = USER, password: str = PASSWORD, **options: Any) -> Any:
        """Connect with PyHive over TLS."""
        socket = TSSLSocket(
            "localhost", self.port, cert_reqs=ssl.CERT_REQUIRED, ca_certs=str(self.certificate)
        )

        def login() -> Any:
            return hive.get_installed_sasl(
                host="localhost", sasl_auth="PLAIN", username=user, password=password
            )

        transport = TSaslClientTransport(login, "PLAIN", socket)
        return hive.connect(thrift_transport=transport, **options)

    @contextmanager
    def asking(self, **options: Any) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
        """A connection, as a function that gives the rows of a query."""
        with closing(self.connect(**options)) as connection, connection.cursor() as cursor:

            def ask(query: str) -> list[tuple[Any, ...]]:
                cursor.execute(query)
                return list(cursor.fetchall()) if cursor.description else []

            yield ask


@pytest.fixture(scope="module")
def served(kafka: KafkaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a password file and TLS, whose pipeline has written the first orders."""
    project = tmp_path_factory.mktemp("serve")
    pem = write_pem(project)
    topics = {name: kafka.create_topic() for name in ("customers", "products", "orders")}
    kafka.produce(topics["customers"], customer_records(SHOP))
    kafka.produce(topics["products"], product_records())
    orders = order_records(SHOP, 0)

    def write_orders(first: int, last: int) -> None:
        kafka.produce(topics["orders"], orders[first:last])

    write_orders(0, 100)
    variables = {**topics, "bootstrap": kafka.bootstrap, "batch": "200", "freshness": "1"}
    tls = ("--tls-certificate", str(pem.certificate), "--tls-key", str(pem.key))
    more = (*tls, "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")
    with BiServer(project, STAR, variables, (USER, PASSWORD), more) as server:
        found = Served(
            port=server.port,
            certificate=pem.certificate,
            project=project,
            write_orders=write_orders,
        )
        with found.asking() as ask:
            wait_until(
                lambda: ask("SELECT COUNT(DISTINCT order_id) FROM star.sales") == [(100,)],
                seconds=FIRST_ROWS_S,
                what="the first orders",
            )
        yield found
        assert server.stop() == 0


def fetched(connection: Any, response: Any) -> list[dict[str, Any]]:
    """The rows of a metadata call, by column."""
    assert response.status.statusCode in (0, 1), response.status.errorMessage
    client, handle = connection.client, response.operationHandle
    first = rpc.TFetchOrientation.FETCH_FIRST
    results = client.FetchResults(rpc.TFetchResultsReq(handle, first, 1000)).results
    schema = client.GetResultSetMetadata(rpc.TGetResultSetMetadataReq(handle)).schema
    values = [next(v.values for v in vars(c).values() if v is not None) for c in results.columns]
    names = [column.columnName for column in schema.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def test_metadata_calls_show_schemas_tables_comments_and_keys(served: Served) -> None:
    """As a BI tool asks for them; a view's columns show the comments that it gives them, units included."""
    with closing(served.connect()) as connection:
        client, session = connection.client, connection.sessionHandle
        schemas = fetched(connection, client.GetSchemas(rpc.TGetSchemasReq(session, None, "%")))
        tables = fetched(
            connection, client.GetTables(rpc.TGetTablesReq(session, None, "star", "%"))
        )
        columns = fetched(
            connection, client.GetColumns(rpc.TGetColumnsReq(session, None, "star", "%", "%"))
        )
        key = fetched(
            connection,
            client.GetPrimaryKeys(
                rpc.TGetPrimaryKeysReq(session, None, "star", "fact_daily_sales")
            ),
        )

    assert {"default", "raw", "star"} <= {row["TABLE_SCHEM"] for row in schemas}
    assert {(row["TABLE_NAME"], row["TABLE_TYPE"], row["REMARKS"]) for row in tables} >= {
        ("dim_customers", "TABLE", "A row a customer, as of now"),
        ("daily_revenue", "VIEW", "Revenue by day"),
    }
    comments = {(row["TABLE_NAME"], row["COLUMN_NAME"]): row["REMARKS"] for row in columns}
    assert comments["dim_products", "price"] == "List price in EUR, VAT excluded"
    assert comments["daily_revenue", "revenue"] == "EUR, VAT excluded"
    assert [(row["COLUMN_NAME"], row["KEQ_SEQ"]) for row in key] == [("order_day", 1), ("sku", 2)]


def test_sqlalchemy_finds_and_queries_the_tables(served: Served) -> None:
    """With PyHive's dialect, over a connection that speaks TLS."""
    engine = create_engine("hive://", creator=served.connect)
    with engine.connect() as connection:
        names = inspect(connection).get_table_names(schema="star")
        there = inspect(connection).has_table("fact_order_lines", schema="star")
        columns = inspect(connection).get_columns("dim_products", schema="star")
        prices = connection.exec_driver_sql("SELECT MAX(price) FROM star.dim_products").scalar()
    engine.dispose()

    assert there
    assert {"dim_products", "fact_order_lines", "daily_revenue"} <= set(names)
    assert [column["name"] for column in columns] == ["sku", "name", "category", "price"]
    assert prices == Decimal("14.20")


def over_jdbc(served: Served, *queries: str) -> list[list[str]]:
    """The rows of queries in one session of beeline: Hive's own JDBC driver, the server's certificate in its trust store."""
    java, home = find_java().path, Path(pyspark.__file__).parent
    store = served.project / "trust.p12"
    if not store.exists():
        keytool = [str(java / "bin" / "keytool"), "-importcert", "-noprompt", "-alias", "server"]
        keytool += ["-file", str(served.certificate), "-keystore", str(store)]
        subprocess.run([*keytool, "-storepass", "changeit"], check=True, capture_output=True)
    script = served.project / "queries.sql"
    script.write_text("".join(f"{query};\n" for query in queries), encoding="utf-8")
    url = f"jdbc:hive2://localhost:{served.port}/star;ssl=true;sslTrustStore={store};trustStorePassword=changeit"
    beeline = [str(home / "bin" / "beeline"), "-u", url, "-n", USER, "-p", PASSWORD]
    beeline += ["--outputformat=tsv2", "--showHeader=false", "--silent=true", "-f", str(script)]
    done = subprocess.run(
        beeline,
        env={**os.environ, "JAVA_HOME": str(java), "SPARK_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # "null" is the prompt of a silent beeline
    return [line.removeprefix("null").split("\t") for line in done.stdout.splitlines()]


def test_beeline_logs_in_over_tls_and_lists_views(served: Served) -> None:
    """As the user whose password it sent."""
    rows = over_jdbc(served, "SELECT current_user(), COUNT(*) FROM dim_products", "SHOW VIEWS")

    assert [USER, "8"] in rows
    assert ["star", "daily_revenue"] in [row[:2] for row in rows]


@pytest.mark.parametrize(
    ("user", "password"), [(USER, "wrong horse"), ("mallory", PASSWORD), ("a,b=c", PASSWORD)]
)
def test_a_wrong_password_is_refused(served: Served, user: str, password: str) -> None:
    """By the server itself, before there is a session."""
    with pytest.raises(TTransportException, match="Error validating the login"):
        served.connect(user, password)


REFUSED = [
    "DROP TABLE star.dim_products",
    "DROP VIEW star.sales",
    "INSERT INTO star.dim_products VALUES ('x', 'x', 'x', 1)",
    "FROM star.dim_products INSERT INTO star.dim_products SELECT * INSERT INTO star.dim_products SELECT *",
    "DELETE FROM star.dim_products",
    "UPDATE star.dim_products SET price = 0",
    "MERGE INTO star.dim_products AS t USING star.dim_products AS s ON t.sku = s.sku WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE star.dim_products",
    "OPTIMIZE star.dim_products",
    "CREATE TABLE mine (x INT)",
    "CREATE TEMPORARY VIEW mine AS SELECT 1",
    "CREATE FUNCTION mine AS 'some.Class'",
    "CACHE TABLE star.dim_products",
    "ADD JAR '/some.jar'",
    "EXECUTE IMMEDIATE 'DROP TABLE star.dim_products'",
    "BEGIN DROP TABLE star.dim_products; END",
    "SELECT TRANSFORM (x) USING 'cat' FROM (SELECT 1 AS x)",
    "SELECT (SELECT COUNT(*) FROM (SELECT TRANSFORM (x) USING 'cat' FROM (SELECT 1 AS x)))",
    "SELECT 1 WHERE '1' IN (SELECT TRANSFORM (x) USING 'cat' AS y FROM (SELECT 1 AS x))",
    "SELECT reflect('java.lang.System', 'lineSeparator')",
    "SELECT java_method('java.lang.System', 'lineSeparator')",
    "SELECT * FROM text.`{project}/users`",
    "SELECT * FROM delta.`{project}/star/dim_products`",
    "SET spark.sql.runSQLOnFiles = true",
    "SET spark.sql.catalog.other = some.Class",
    "DESCRIBE DETAIL star.dim_products",
    "SHOW TABLES IN global_temp",
]


def test_what_is_not_reading_is_refused(served: Served) -> None:
    """Each for itself; the table is as it was, and the session goes on."""
    allowed = []
    with served.asking() as ask:
        for statement in REFUSED:
            try:
                ask(statement.format(project=served.project))
                allowed.append(statement)
            except OperationalError:
                continue
        products = ask("SELECT COUNT(*) FROM star.dim_products")

    assert allowed == []
    assert products == [(8,)]


@pytest.mark.parametrize(
    "setting",
    [
        {"set:hiveconf:spark.sql.runSQLOnFiles": "true"},
        {"set:hiveconf:spark.sql.catalog.other": "some.Class"},
    ],
)
def test_a_connections_settings_open_nothing(served: Served, setting: dict[str, str]) -> None:
    """They come with the connection, are no statement that could be refused, and go no further."""
    with served.asking(configuration=setting) as ask:
        rows = ask("SELECT COUNT(*) FROM star.dim_products")
        with pytest.raises(OperationalError):
            ask(f"SELECT * FROM text.`{served.project}/users`")

    assert rows == [(8,)]


def test_definitions_of_another_process_are_published(served: Served) -> None:
    """While clients are connected; dropped ones go."""
    script = served.project / "view.sql"
    script.write_text(
        "CREATE VIEW star.dear AS SELECT sku FROM star.dim_products WHERE price > 10;",
        encoding="utf-8",
    )
    run = [str(Path(sys.executable).with_name("penstock")), "run", str(script)]
    subprocess.run(run, cwd=served.project, check=True, capture_output=True)

    def answer() -> int | None:
        try:
            with served.asking() as ask:
                return int(ask("SELECT COUNT(*) FROM star.dear")[0][0])
        except OperationalError:
            return None

    wait_until(lambda: answer() is not None, seconds=60, what="the view")
    assert answer() == 3


@pytest.mark.nightly
def test_every_query_sees_a_committed_snapshot_while_the_pipeline_writes(served: Served) -> None:
    """Fifty queries over JDBC during as many batches: never a part of an order's lines, never some of a MERGE's rows.

    The lines of an order come in one record, so in one batch; every count only grows.
    """
    stop, written = threading.Event(), 100

    def write() -> None:
        nonlocal written
        while written < SHOP.orders // SHOP.partitions and not stop.is_set():
            served.write_orders(written, written + 20)
            written += 20
            stop.wait(0.5)

    of_file = " ".join(COMPLETE.read_text(encoding="utf-8").splitlines()[1:])
    questions = (
        f"SELECT 'torn', incomplete FROM ({of_file}) AS answer",
        "SELECT 'lines', COUNT(DISTINCT order_id), COUNT(*), COUNT(DISTINCT order_id, line) FROM fact_order_lines",
        "SELECT 'sales', SUM(order_lines), COUNT(*), COUNT(DISTINCT order_day, sku) FROM fact_daily_sales",
    )
    writer = threading.Thread(target=write)
    writer.start()
    try:
        rows = over_jdbc(served, *(questions[number % 3] for number in range(QUERIES)))
    finally:
        stop.set()
        writer.join()
    torn, seen, sales = (
        [tuple(map(int, row[1:])) for row in rows if row[0] == kind]
        for kind in ("torn", "lines", "sales")
    )
    summed = [total for total, _, _ in sales]

    assert len(torn) + len(seen) + len(sales) == QUERIES
    assert set(torn) == {(0,)}
    assert all(found == keys for _, found, keys in sales), (
        "a row of the old version and one of the new"
    )
    assert len({orders for orders, _, _ in seen}) > 3, "the pipeline did not write meanwhile"
    assert all(found == keys for _, found, keys in seen)
    assert seen == sorted(seen)
    assert summed == sorted(summed)
    assert_totals_agree(served, written)


def assert_totals_agree(served: Served, orders: int) -> None:
    """Wait until all orders are in both fact tables; DuckDB and deltalake read the same sums of them."""
    query = "SELECT COUNT(DISTINCT order_id), COUNT(*), SUM(revenue) FROM {}"
    daily = "SELECT SUM(order_lines), SUM(revenue) FROM {}"
    with Dashboard(served.connect()) as dashboard:
        dashboard.wait_for_orders(orders, FIRST_ROWS_S)
        ((totals,), _) = dashboard.rows(query.format("star.fact_order_lines"))
        ((of_days,), _) = dashboard.rows(daily.format("star.fact_daily_sales"))
    star = served.project / "star"
    with duckdb.connect() as db:
        for name in ("fact_order_lines", "fact_daily_sales"):
            db.register(name, read_delta(star / name))

        assert totals[0] == orders
        assert of_days == totals[1:]
        assert db.execute(query.format("fact_order_lines")).fetchall() == [totals]
        assert db.execute(daily.format("fact_daily_sales")).fetchall() == [of_days]


def test_the_dashboard_of_the_example_gets_its_answers(served: Served) -> None:
    """Every query of the folder, with the columns that it names; Kafka's topics can be read as well."""
    with Dashboard(served.connect()) as dashboard:
        answers = {answer.title: answer for answer in dashboard.answers()}
        ((customers,),), _ = dashboard.rows("SELECT COUNT(*) FROM raw.customers")
    by_day = answers["Revenue by day"]

    assert len(answers) == 5
    assert all(answer.rows for answer in answers.values())
    assert by_day.columns == ("order_day", "order_lines", "pieces", "revenue")
    assert customers == len(customer_records(SHOP))
