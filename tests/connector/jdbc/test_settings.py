"""What a WITH clause of a jdbc table may say; which URLs, drivers and parameters pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import InputError, OptionError, UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.connector.jdbc.address import Address, Backend, read_address
from penstock.connector.jdbc.connector import JdbcConnector
from penstock.connector.jdbc.settings import LookupSettings, read_jdbc_table, read_lookup_settings
from penstock.connector.lookup.contract import CacheLimits
from tests.connector.jdbc.tables import jdbc_table, sink_of

PROJECT = Path("/project")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (
            "jdbc:postgresql://db.example/shop",
            Address(backend=Backend.POSTGRESQL, host="db.example", database="shop"),
        ),
        (
            "postgresql+psycopg://[::1]:5433/shop?sslmode=verify-full&ApplicationName=p&connectTimeout=5",
            Address(
                backend=Backend.POSTGRESQL,
                host="::1",
                port=5433,
                database="shop",
                parameters={
                    "sslmode": "verify-full",
                    "application_name": "p",
                    "connect_timeout": "5",
                },
            ),
        ),
        (
            "jdbc:sqlite:out/shop.db",
            Address(backend=Backend.SQLITE, database="/project/out/shop.db"),
        ),
        ("sqlite:////data/shop.db", Address(backend=Backend.SQLITE, database="/data/shop.db")),
    ],
)
def test_jdbcs_urls_and_sqlalchemys_name_databases(url: str, address: Address) -> None:
    """Parameters get libpq's names; SQLite's files are the project's."""
    assert read_address(url, PROJECT, owner="t") == address


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("shop", "no URL"),
        ("jdbc:mysql://db/shop?autoDeserialize=true", "database 'mysql'"),
        ("postgresql+pg8000://db/shop", "driver 'pg8000'"),
        ("jdbc:postgresql:shop", "one host"),
        ("jdbc:postgresql://a,b/shop", "one host"),
        ("jdbc:postgresql://db:99999/shop", "port 99999"),
        ("jdbc:postgresql://app:hunter2@db/shop", "user or a password"),
        ("jdbc:postgresql://db/shop?user=app&password=hunter2", "user or a password"),
        ("jdbc:postgresql://db/shop?socketFactory=org.springframework.X", "not allowed"),
        ("jdbc:postgresql://db/shop?loggerFile=/etc/cron.d/x", "not allowed"),
        ("jdbc:postgresql://db/shop?options=-cx%3Dy", "not allowed"),
        ("jdbc:postgresql://db/shop?currentSchema=x%20-c%20y", "malformed"),
        ("jdbc:postgresql://db/shop?connectTimeout=x", "malformed"),
        ("jdbc:sqlite:", "file of SQLite"),
        ("jdbc:sqlite::memory:", "file of SQLite"),
        ("sqlite://///x?mode=ro", "file of SQLite"),
    ],
)
def test_what_a_url_must_not_say_is_refused(url: str, part: str) -> None:
    """Other drivers, parameters that load or write things, secrets; none is shown."""
    with pytest.raises(InputError, match=part) as caught:
        read_address(url, PROJECT, owner="t")

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "kind", "part"),
    [
        ({"url": None, "table-name": None}, OptionError, "missing: table-name, url"),
        ({"driver": "com.mysql.cj.jdbc.Driver"}, OptionError, "not the driver"),
        ({"driver": "org.sqlite.JDBC"}, OptionError, "not the driver"),
        ({"compatible-mode": "mysql"}, UnsupportedError, "compatible-mode"),
        ({"sink.parallelism": "2"}, UnsupportedError, "sink.parallelism"),
        ({"username": "app"}, OptionError, "together"),
        ({"table-name": "a.b.c"}, OptionError, "names no table"),
        ({"table-name": " "}, OptionError, "names no table"),
        ({"sink.max-retries": "-1"}, OptionError, "less than 0"),
        ({"sink.buffer-flush.max-row": "1"}, OptionError, "unsupported option"),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: dict[str, str | None], kind: type[InputError], part: str
) -> None:
    """Before a connection is opened."""
    with pytest.raises(kind, match=part):
        sink_of(jdbc_table(options))


def test_flinks_options_are_understood() -> None:
    """Those of reading have no effect on a sink; the password is in no text of the value."""
    read = read_jdbc_table(
        jdbc_table(
            {
                "table-name": "sales.orders",
                "driver": "org.postgresql.Driver",
                "username": "app",
                "password": "hunter2",
                "connection.max-retry-timeout": "1500 ms",
                "sink.buffer-flush.max-rows": "10",
                "sink.buffer-flush.interval": "1 s",
                "sink.max-retries": "0",
                "sink.parallelism": "1",
                "scan.fetch-size": "10",
                "lookup.cache": "NONE",
            },
            key=("id",),
        ),
        PROJECT,
    )

    assert (read.database_schema, read.name, read.key) == ("sales", "orders", ("id",))
    assert (read.connect_timeout_s, read.rows_at_once, read.retries) == (2, 10, 0)
    assert read.shown == "table sales.orders of db.example:5432/shop"
    assert "hunter2" not in repr(read)


def test_a_key_decides_what_a_table_takes() -> None:
    """Without one rows cannot be found again; types that have no place in a table are refused."""
    assert sink_of(jdbc_table()).capabilities.accepts is ChangelogMode.INSERT_ONLY
    assert sink_of(jdbc_table(key=("id",))).capabilities.accepts is ChangelogMode.ALL
    with pytest.raises(UnsupportedError, match="ARRAY"):
        sink_of(jdbc_table(types={"a": "ARRAY<INT>"}))
    assert JdbcConnector(project=PROJECT).source(jdbc_table()).bounded


# --- the options of lookups: which go together, and how the cache is told ---


CACHE = "lookup.partial-cache"


def test_without_a_cache_nothing_is_remembered_and_a_read_is_tried_four_times() -> None:
    """Flink's defaults."""
    settings = read_lookup_settings(jdbc_table())

    assert settings == LookupSettings(cache=None, retries=3)
    assert settings.shown == "none"


def test_a_partial_cache_has_the_limits_that_are_given() -> None:
    """Each may stand alone."""
    settings = read_lookup_settings(
        jdbc_table(
            {
                "lookup.cache": "partial",
                f"{CACHE}.max-rows": "5000",
                f"{CACHE}.expire-after-write": "10 min",
                f"{CACHE}.expire-after-access": "90 s",
                f"{CACHE}.cache-missing-key": "false",
                "lookup.max-retries": "0",
            }
        )
    )

    assert settings == LookupSettings(
        cache=CacheLimits(
            max_rows=5000, after_write_ms=600_000, after_access_ms=90_000, missing=False
        ),
        retries=0,
    )
    assert settings.shown == (
        "PARTIAL, in each worker process: at most 5000 rows, for 600 s after they were read, for 90 s after they "
        "were used, keys without rows not"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lookup.cache": "FULL"}, "is not one of 'NONE', 'PARTIAL'"),
        ({"lookup.cache": "PARTIAL"}, "would grow without end"),
        (
            {f"{CACHE}.max-rows": "10"},
            f"option '{CACHE}.max-rows' is of a cache, and there is none",
        ),
        (
            {"lookup.cache": "NONE", f"{CACHE}.cache-missing-key": "true"},
            "is of a cache, and there is none",
        ),
        ({"lookup.cache": "PARTIAL", f"{CACHE}.max-rows": "0"}, "at least 1"),
        ({"lookup.cache": "PARTIAL", f"{CACHE}.expire-after-write": "0 s"}, "at least 1"),
        ({"lookup.max-retries": "-1"}, "less than 0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, str], message: str) -> None:
    """When the table is created, or named with such a hint."""
    with pytest.raises(OptionError, match=message):
        JdbcConnector(project=Path("/project")).check(jdbc_table(options))
