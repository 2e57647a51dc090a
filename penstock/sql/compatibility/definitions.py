"""Statements that define catalogs, databases, tables and views, and Flink's formats, each in a table that names it.

The options of formats are the connectors' to check.
"""

from __future__ import annotations

from penstock.sql.compatibility.row import Kind, Row, Status

PLAIN = "id BIGINT, name STRING"
KAFKA = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:9092'"
FILES = "'connector' = 'filesystem', 'path' = 'files'"
CHANGES = "read and written: inserts, updates and deletes"
WRITTEN = "files are written in it, not read; in a topic it is refused"


def _row(
    name: str,
    note: str = "",
    *,
    status: Status = Status.OWN,
    options: str = KAFKA,
    columns: str = PLAIN,
) -> Row:
    example = f"CREATE TABLE formatted ({columns}) WITH ({options}, 'format' = '{name}')"
    return Row(Kind.FORMAT, name, example, status, note)


def _refused_format(name: str, note: str) -> Row:
    return _row(name, note, status=Status.REFUSE)


FORMATS: tuple[Row, ...] = (
    _row("json", "read and written; with Flink's options"),
    _row("raw", "read and written; one column", columns="line STRING"),
    _row("csv", WRITTEN, options=FILES),
    _row("parquet", WRITTEN, options=FILES),
    _row("orc", WRITTEN, options=FILES),
    _row("debezium-json", CHANGES),
    _row("canal-json", CHANGES),
    _row("maxwell-json", CHANGES),
    _row("ogg-json", CHANGES),
    _refused_format("avro", "have the records written as json"),
    _refused_format("avro-confluent", "have the records written as json"),
    _refused_format("debezium-avro-confluent", "set the JSON converter in the Debezium connector"),
    _refused_format("protobuf", "read them whole by 'format' = 'raw'"),
)  # fmt: skip
"""Every format of Flink 2.2."""


MADE = (
    "CREATE TABLE made (id BIGINT NOT NULL, name STRING, ts TIMESTAMP(3), day AS CAST(ts AS DATE), "
    "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, CONSTRAINT made_key PRIMARY KEY (id) NOT ENFORCED) "
    "DISTRIBUTED BY HASH(id) INTO 4 BUCKETS WITH ('connector' = 'blackhole');"
)
BARE = "CREATE TABLE bare (id BIGINT NOT NULL, name STRING, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');"
VIEWED = "CREATE VIEW cheap AS SELECT auction FROM bids WHERE price < 1;"
SALES = "CREATE DATABASE sales;"
SCRATCH = "CREATE CATALOG scratch WITH ('type' = 'generic_in_memory');"
IN_BRACKETS = "in brackets or without"


def _own(name: str, example: str, note: str = "", setup: str = "") -> Row:
    return Row(Kind.STATEMENT, name, example, Status.OWN, note, setup)


def _refused(name: str, example: str, note: str, setup: str = "") -> Row:
    return Row(Kind.STATEMENT, name, example, Status.REFUSE, note, setup)


TABLES: tuple[Row, ...] = (
    _own(
        "CREATE TABLE",
        "CREATE TABLE t (id BIGINT NOT NULL COMMENT 'key', k STRING METADATA FROM 'key' VIRTUAL, "
        "ts TIMESTAMP(3), day AS CAST(ts AS DATE), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, "
        "PRIMARY KEY (id) NOT ENFORCED) COMMENT 'all of it' PARTITIONED BY (id) "
        "WITH ('connector' = 'blackhole')",
    ),
    _own(
        "WATERMARK FOR a column of the clock",
        "CREATE TABLE t (id BIGINT, ts AS CAST(CURRENT_TIMESTAMP AS TIMESTAMP(3)), WATERMARK FOR ts AS ts - INTERVAL "
        "'1' SECOND) WITH ('connector' = 'datagen')",
        "CURRENT_TIMESTAMP, LOCALTIMESTAMP, NOW(), UNIX_TIMESTAMP(): rows have the time of their micro-batch, the same "
        "when it is replayed",
    ),
    _own(
        "METADATA declared as another type",
        "CREATE TABLE t (id BIGINT, ts TIMESTAMP(3) METADATA FROM 'timestamp', o INT METADATA FROM 'offset', "
        "headers MAP<STRING, STRING> METADATA, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ("
        "'connector' = 'kafka', 'topic' = 't', 'format' = 'json', 'properties.bootstrap.servers' = 'localhost:9092')",
        "cast as in Flink, a time in the session's time zone; casts that may fail (a STRING to a number) or make "
        "NULL, those to TIME, and those of maps, arrays and rows to STRING are refused: compute them in a column",
    ),
    _own(
        "CREATE TABLE ... WITH ('connector.type' = ...)",
        "CREATE TABLE t (id BIGINT) WITH ('connector.type' = 'filesystem', 'connector.path' = 'x', "
        "'format.type' = 'json', 'update-mode' = 'append')",
        "options of Flink 1.10 and before are read as today's, with a note; the catalog keeps today's",
    ),
    _own(
        "CREATE TABLE, discovery of partitions",
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
        "'properties.bootstrap.servers' = 'localhost:9092', 'scan.topic-partition-discovery.interval' = '5 min')",
        "Flink's default; here it is 1 s, with `topic-pattern` 10 s, so that rows of a new partition are not late "
        "(docs/event-time.md)",
    ),
    _own(
        "CREATE TEMPORARY TABLE IF NOT EXISTS",
        "CREATE TEMPORARY TABLE IF NOT EXISTS t (id BIGINT) WITH ('connector' = 'blackhole')",
        "lives as long as the session, or the run of a file",
    ),
    _own(
        "CREATE TABLE, DISTRIBUTED BY",
        "CREATE TABLE t (id BIGINT) DISTRIBUTED BY HASH(id) INTO 4 BUCKETS WITH ('connector' = 'blackhole')",
        "kept and shown; connectors place rows by their own options, where Flink's refuse it",
    ),
    _own(
        "CREATE TABLE, DISTRIBUTED INTO",
        "CREATE TABLE t (id BIGINT) DISTRIBUTED INTO 4 BUCKETS WITH ('connector' = 'blackhole')",
    ),
    _own("CREATE TABLE LIKE", "CREATE TABLE t WITH ('sink.x' = 'y') LIKE bids"),
    _own(
        "CREATE TABLE LIKE, with ways to take over",
        "CREATE TABLE t (ts2 AS ts, WATERMARK FOR ts AS ts) WITH ('topic' = 'other') "
        "LIKE bids (INCLUDING ALL OVERWRITING WATERMARKS OVERWRITING OPTIONS EXCLUDING CONSTRAINTS)",
        "INCLUDING, EXCLUDING, OVERWRITING of ALL, CONSTRAINTS, DISTRIBUTION, GENERATED, METADATA, OPTIONS, "
        "PARTITIONS, WATERMARKS, with Flink's rules",
    ),
    _own(
        "CREATE TABLE AS",
        "CREATE TABLE t WITH ('connector' = 'blackhole') AS SELECT auction, channel FROM bids",
        "the type of a calculated decimal has to be written: CAST(... AS type)",
    ),
    _own(
        "CREATE TABLE AS, with columns",
        "CREATE TABLE t (note STRING, auction STRING) WITH ('connector' = 'blackhole') "
        "AS SELECT auction, channel FROM bids",
    ),
    _own(
        "CREATE TABLE AS, with names in another order",
        "CREATE TABLE t (channel, auction) WITH ('connector' = 'blackhole') AS SELECT auction, channel FROM bids",
    ),
    _own(
        "REPLACE TABLE AS",
        "REPLACE TABLE bare WITH ('connector' = 'blackhole') AS SELECT auction FROM bids",
        "of a query that ends, into delta or filesystem; its rows replace the old ones, and other columns "
        "need another 'path'",
        BARE,
    ),
    _own(
        "CREATE OR REPLACE TABLE AS",
        "CREATE OR REPLACE TABLE t WITH ('connector' = 'blackhole') AS SELECT auction FROM bids",
    ),
    _own("DROP TABLE", "DROP TABLE bare", "the connector's data stays", BARE),
    _own("DROP TABLE IF EXISTS", "DROP TABLE IF EXISTS nothing"),
    _own(
        "DROP TEMPORARY TABLE",
        "DROP TEMPORARY TABLE t",
        setup="CREATE TEMPORARY TABLE t (id BIGINT) WITH ('connector' = 'blackhole');",
    ),
)

ALTERED: tuple[Row, ...] = (
    _own(
        "ALTER TABLE RENAME TO",
        "ALTER TABLE bare RENAME TO other",
        "refused while a view reads the table",
        BARE,
    ),
    _own("ALTER TABLE SET", "ALTER TABLE bare SET ('connector' = 'print')", setup=BARE),
    _own("ALTER TABLE RESET", "ALTER TABLE bids RESET ('scan.startup.mode')"),
    _own("ALTER TABLE IF EXISTS", "ALTER TABLE IF EXISTS nothing SET ('a' = 'b')"),
    _own(
        "ALTER TABLE ADD column",
        "ALTER TABLE bare ADD (a INT COMMENT 'new' FIRST, b AS id + 1 AFTER name, m STRING METADATA)",
        f"{IN_BRACKETS}; the definition changes, data that is there does not",
        BARE,
    ),
    _own("ALTER TABLE ADD WATERMARK", "ALTER TABLE bare ADD WATERMARK FOR ts AS ts", setup=BARE),
    _own(
        "ALTER TABLE ADD PRIMARY KEY",
        "ALTER TABLE bare ADD PRIMARY KEY (id) NOT ENFORCED",
        setup=BARE,
    ),
    _own(
        "ALTER TABLE ADD CONSTRAINT",
        "ALTER TABLE bare ADD CONSTRAINT k PRIMARY KEY (id) NOT ENFORCED",
        setup=BARE,
    ),
    _own("ALTER TABLE ADD DISTRIBUTION", "ALTER TABLE bare ADD DISTRIBUTION BY (id)", setup=BARE),
    _own(
        "ALTER TABLE MODIFY column",
        "ALTER TABLE bare MODIFY (name STRING COMMENT 'long' FIRST)",
        setup=BARE,
    ),
    _own(
        "ALTER TABLE MODIFY WATERMARK",
        "ALTER TABLE made MODIFY WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE",
        setup=MADE,
    ),
    _own(
        "ALTER TABLE MODIFY PRIMARY KEY",
        "ALTER TABLE made MODIFY PRIMARY KEY (name) NOT ENFORCED",
        setup=MADE,
    ),
    _own(
        "ALTER TABLE MODIFY DISTRIBUTION",
        "ALTER TABLE made MODIFY DISTRIBUTION INTO 2 BUCKETS",
        setup=MADE,
    ),
    _own(
        "ALTER TABLE DROP column",
        "ALTER TABLE bare DROP (name, ts)",
        "not one that a computed column, the watermark, a key or a view uses",
        BARE,
    ),
    _own("ALTER TABLE DROP PRIMARY KEY", "ALTER TABLE made DROP PRIMARY KEY", setup=MADE),
    _own("ALTER TABLE DROP CONSTRAINT", "ALTER TABLE made DROP CONSTRAINT made_key", setup=MADE),
    _own("ALTER TABLE DROP WATERMARK", "ALTER TABLE made DROP WATERMARK", setup=MADE),
    _own("ALTER TABLE DROP DISTRIBUTION", "ALTER TABLE made DROP DISTRIBUTION", setup=MADE),
    _own("ALTER TABLE RENAME column", "ALTER TABLE bare RENAME name TO label", setup=BARE),
    _refused(
        "ALTER TABLE ADD PARTITION",
        "ALTER TABLE bare ADD IF NOT EXISTS PARTITION (id = 1) WITH ('a' = 'b')",
        "a partition is there once rows are written to it",
        BARE,
    ),
    _refused(
        "ALTER TABLE DROP PARTITION",
        "ALTER TABLE bare DROP PARTITION (id = 1), PARTITION (id = 2)",
        "delete its rows",
        BARE,
    ),
)

VIEWS: tuple[Row, ...] = (
    _own("CREATE VIEW", "CREATE VIEW v (a, b) COMMENT 'two' AS SELECT auction, price FROM bids"),
    _own(
        "CREATE TEMPORARY VIEW IF NOT EXISTS",
        "CREATE TEMPORARY VIEW IF NOT EXISTS v AS SELECT auction FROM bids",
    ),
    _own("ALTER VIEW RENAME TO", "ALTER VIEW cheap RENAME TO dear", setup=VIEWED),
    _own(
        "ALTER VIEW AS",
        "ALTER VIEW cheap AS SELECT bidder FROM bids",
        "refused where a view over it would break",
        VIEWED,
    ),
    _own("DROP VIEW", "DROP VIEW IF EXISTS cheap", setup=VIEWED),
    _own(
        "DROP TEMPORARY VIEW",
        "DROP TEMPORARY VIEW v",
        setup="CREATE TEMPORARY VIEW v AS SELECT 1 AS a;",
    ),
)

NAMESPACES: tuple[Row, ...] = (
    _own(
        "CREATE DATABASE",
        "CREATE DATABASE IF NOT EXISTS sales COMMENT 'of all' WITH ('owner' = 'x')",
    ),
    _own("ALTER DATABASE SET", "ALTER DATABASE sales SET ('owner' = 'y')", setup=SALES),
    _own("DROP DATABASE", "DROP DATABASE IF EXISTS sales RESTRICT", setup=SALES),
    _own(
        "DROP DATABASE CASCADE",
        "DROP DATABASE sales CASCADE",
        "definitions are removed, data stays",
        SALES,
    ),
    _own("USE", "USE sales", setup=SALES),
    _own(
        "CREATE CATALOG, in the store",
        "CREATE CATALOG warehouse COMMENT 'kept' WITH ('type' = 'penstock')",
        "kept with its tables, where Flink forgets both with the session",
    ),
    _own(
        "CREATE CATALOG, in memory",
        "CREATE CATALOG IF NOT EXISTS scratch WITH ('type' = 'generic_in_memory', 'default-database' = 'd')",
    ),
    _own(
        "CREATE CATALOG, of tables that are elsewhere",
        "CREATE CATALOG files WITH ('type' = 'delta-path', 'path' = '.')",
        "a folder of Delta tables; a database server is 'jdbc', what Spark's catalog has 'spark'",
    ),
    _refused(
        "CREATE CATALOG, of another system",
        "CREATE CATALOG metastore WITH ('type' = 'hive')",
        "the type 'hive' is not supported",
    ),
    _own("ALTER CATALOG SET", "ALTER CATALOG default_catalog SET ('type' = 'penstock')"),
    _own("ALTER CATALOG RESET", "ALTER CATALOG scratch RESET ('nothing')", setup=SCRATCH),
    _own("ALTER CATALOG COMMENT", "ALTER CATALOG scratch COMMENT 'gone tomorrow'", setup=SCRATCH),
    _own(
        "DROP CATALOG",
        "DROP CATALOG IF EXISTS scratch",
        "one of the type 'penstock' has to be empty",
        SCRATCH,
    ),
    _own("USE CATALOG", "USE CATALOG scratch", setup=SCRATCH),
    _own("SHOW CREATE CATALOG", "SHOW CREATE CATALOG scratch", setup=SCRATCH),
    _own("SHOW CREATE TABLE", "SHOW CREATE TABLE bids", "secrets are left out"),
    _own("SHOW CREATE VIEW", "SHOW CREATE VIEW expensive"),
)

DEFINITIONS: tuple[Row, ...] = (*TABLES, *ALTERED, *VIEWS, *NAMESPACES)
"""Every form of CREATE, ALTER and DROP of these, and what shows them again."""
