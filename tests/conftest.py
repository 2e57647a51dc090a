"""What tests share: a Kafka broker, a Spark with Delta, a PostgreSQL server, a browser, each started when asked for.

A test that asks for `kafka` or `topic` is marked `broker`, one that asks for `spark` is marked `spark`, one that asks
for `postgres` or `browser` is marked `slow`.
Pure tests run first, so that a simple mistake shows before a JVM has started; then the longest files, as a worker that
begins one of them last would be at work alone.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.order import place_of

# contract suites and helpers assert too; without this a failure would not show the values
pytest.register_assert_rewrite(
    *(f"tests.contract.{suite}" for suite in ("catalog", "format", "sink", "sink_writes", "source"))
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.browser import Browser
    from tests.kafka_server import KafkaServer
    from tests.postgres_server import PostgresServer
    from tests.s3_server import S3Server
    from tests.spark_cluster import Cluster

ROOT = Path(__file__).resolve().parents[1]

# Spark's JVM and the Python workers it forks inherit these; they must be set before the JVM starts.
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
# JVMs of the tests live for seconds and gain more from a quick start than from the last optimisation; with their small
# defaults they would throw compiled code away, and collect garbage whenever a thousand more classes are loaded
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:-UseCodeCacheFlushing"
    " -XX:MetaspaceSize=256m"
)
os.environ.setdefault("JDK_JAVA_OPTIONS", JAVA_OPTIONS)

# A query of a test runs once or twice, over a handful of rows: compiling it and planning it anew after each shuffle takes
# longer than running it. `make test-all` and the processes that tests start run Spark as people do.
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
AS_PEOPLE_DO = "PENSTOCK_TESTS_AS_PEOPLE_DO"

HAS_OWN_LOCAL_FILES = os.environ.get(AS_PEOPLE_DO) != "1" and os.name == "posix"
"""Whether the tests' Spark writes local files by `local_files.py`, in place of Hadoop's classes."""

# every process that a test, Spark or a worker starts would compile hundreds of modules anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ["TZ"] = "UTC"
time.tzset()

# A machine that is busy proves nothing about a property; test-fast asks for few examples.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", settings.get_profile("patient"), max_examples=20)
settings.load_profile("patient")


# Modules and tests stay to the end: the garbage collector has nothing to find among them.
gc.disable()


def pytest_collection_finish() -> None:
    """Keep the garbage collector from going through thousands of tests and modules from now on."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


def pytest_sessionfinish() -> None:
    """Let go of what was kept, as DuckDB counts what is there at the end."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures they use; run the cheap ones first, then the longest files."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if names & {"kafka", "topic"}:
            item.add_marker(pytest.mark.broker)
        if names & {"spark", "spark_session"}:
            item.add_marker(pytest.mark.spark)
        if names & {"postgres", "browser"}:
            item.add_marker(pytest.mark.slow)
    items.sort(key=place_of)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """The run's Kafka broker. A test that kills it must leave it running again."""
    from penstock.connector.kafka.broker.broker import EmbeddedBroker
    from tests.kafka_server import KafkaServer

    with EmbeddedBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield KafkaServer(broker)


@pytest.fixture
def topic(kafka: KafkaServer) -> Callable[..., str]:
    """Makes topics with new names, as in `topic(partitions=4, **{"cleanup.policy": "compact"})`."""
    return kafka.create_topic


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The run's PostgreSQL; a test that asks is skipped where the server or its driver is not installed."""
    from tests.postgres_server import programs, running

    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'penstock[jdbc]'")
    with running(found) as server:
        yield server


@pytest.fixture(scope="session")
def running_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The run's browser. Ask for `browser` instead, which shows each test a page as people see it first."""
    pytest.importorskip("selenium", reason="selenium is not installed: make setup")
    from tests.browser import programs, running

    found = programs()
    if found is None:
        pytest.skip("Chromium is not installed (Debian: apt install chromium chromium-driver)")
    with running(found, tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def browser(running_browser: Browser) -> Iterator[Browser]:
    """A browser, light and as wide as a desk's; a test that asks is skipped where there is none."""
    running_browser.plain()
    yield running_browser
    running_browser.open("about:blank")  # its page asks a server that ends now for events


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The run's Spark. Ask for `spark` instead, which also stops the queries a test leaves behind."""
    from pyspark.sql import SparkSession

    from penstock.catalog.errors import failure_mark
    from penstock.connector.delta.connector import delta_jars
    from penstock.connector.jvm.java import find_java
    from penstock.sql.spark_process.class_path import class_path_settings, with_archive
    from penstock.sql.spark_process.python_processes import python_environment, worker_memory
    from tests.local_files import use_local_files

    failure_mark()  # the workers have it from the JVM's environment
    os.environ["JAVA_HOME"] = str(find_java().path)
    settings = {
        **class_path_settings(delta_jars(), {}, in_process=True),
        **worker_memory(),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        # VACUUM lists folders by as many tasks, whatever they hold: 10,000, a minute and more
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **({} if os.environ.get(AS_PEOPLE_DO) == "1" else QUICK),
    }
    builder = SparkSession.builder.master("local[2,4]").appName("penstock-tests")
    for key, value in with_archive(settings).items():  # where `penstock prepare` made one
        builder = builder.config(key, value)
    with python_environment(in_process=True):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    if HAS_OWN_LOCAL_FILES:
        use_local_files(session)
    yield session
    session.stop()


MOST_JAVA_OBJECTS = 1_000
"""Objects of Java that Python refers to after a test; four such tests in a row make about as many."""


@pytest.fixture
def spark(spark_session: SparkSession) -> Iterator[SparkSession]:
    """Spark with Delta: local[2,4], UTC, two shuffle partitions. Queries still running afterwards are stopped.

    Java keeps each query plan that a Python object refers to. Such objects lie in cycles, which the thresholds above
    leave alone for thousands of tests, until Java has no memory and collects garbage without end.
    """
    from py4j.finalizer import ThreadSafeFinalizer

    yield spark_session
    for query in spark_session.streams.active:
        query.stop()
    if len(ThreadSafeFinalizer.finalizers) > MOST_JAVA_OBJECTS:
        gc.collect()


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone Spark cluster of its own: a master and two workers of one core each."""
    from tests.spark_cluster import Cluster

    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[S3Server]:
    """A store that speaks S3, of which nothing stands in the environment: its keys have to come otherwise."""
    from tests.s3_server import running

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with running() as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project folder that is also the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
