"""Statements about rows, functions, materialized tables and the session; SHOW and DESCRIBE."""

from __future__ import annotations

from penstock.sql.compatibility.row import Kind, Row, Status

KEY = "CREATE SECRET key AS 'f2b9-example';"
SECRETS_NOTE = "not in Flink: a value that options of tables refer to as ${secret:name}"


def _row(status: Status, name: str, example: str, note: str = "", setup: str = "") -> Row:
    return Row(Kind.STATEMENT, name, example, status, note, setup)


def _own(name: str, example: str, note: str = "", setup: str = "") -> Row:
    return _row(Status.OWN, name, example, note, setup)


def _spark(name: str, example: str, note: str = "", setup: str = "") -> Row:
    return _row(Status.TRANSLATE, name, example, note, setup)


def _refused(name: str, example: str, note: str, setup: str = "") -> Row:
    return _row(Status.REFUSE, name, example, note, setup)


SESSION: tuple[Row, ...] = (
    _own(
        "EXPLAIN",
        "EXPLAIN PLAN FOR INSERT INTO copies SELECT auction, price FROM bids",
        "Penstock's own plan text",
    ),
    _own(
        "EXPLAIN CHANGELOG_MODE",
        "EXPLAIN CHANGELOG_MODE SELECT auction, MAX(price) FROM bids GROUP BY auction",
        "of each operator: kinds of changes, key, state, and what bounds it",
    ),
    _own(
        "EXPLAIN PLAN_ADVICE",
        "EXPLAIN PLAN_ADVICE SELECT auction, MAX(price) FROM bids GROUP BY auction",
    ),
    _own("EXPLAIN JSON_EXECUTION_PLAN", "EXPLAIN JSON_EXECUTION_PLAN SELECT auction FROM bids"),
    _refused(
        "EXPLAIN ESTIMATED_COST",
        "EXPLAIN ESTIMATED_COST SELECT auction FROM bids",
        "a stream has no cost that could be told before it runs",
    ),
    _own("SET", "SET 'table.local-time-zone' = 'Europe/Berlin'"),
    _own(
        "SET key = value",
        "SET table.exec.state.ttl = 36000000",
        "without quotes up to the next blank; a value with // or -- in it, which begin comments, needs quotes",
    ),
    _own("SET (all)", "SET"),
    _own("RESET", "RESET 'table.local-time-zone'"),
    _own("RESET key", "RESET table.local-time-zone"),
    _own("RESET (all)", "RESET"),
    _spark("ADD JAR", "ADD JAR 'functions.jar'", "relative to the project, or a URL"),
    _refused("REMOVE JAR", "REMOVE JAR 'functions.jar'", "Spark cannot unload classes"),
    _own(
        "STOP JOB",
        "STOP JOB 'etl/copies'",
        "the batch in flight is finished; also a job of another runner",
    ),
    _own(
        "STOP JOB ... WITH SAVEPOINT",
        "STOP JOB 'etl/copies' WITH SAVEPOINT",
        "the checkpoint is the savepoint",
    ),
    _refused(
        "STOP JOB ... WITH DRAIN", "STOP JOB 'etl/copies' WITH DRAIN", "WITH DRAIN is not supported"
    ),
    _own("CREATE SECRET", "CREATE SECRET IF NOT EXISTS password AS 'f2b7-example'", SECRETS_NOTE),
    _own("ALTER SECRET", "ALTER SECRET key AS 'f2b8-example'", SECRETS_NOTE, KEY),
    _own("DROP SECRET", "DROP SECRET IF EXISTS key", SECRETS_NOTE, KEY),
    _own("USE MODULES", "USE MODULES core", "core is the only one"),
    _refused(
        "LOAD MODULE",
        "LOAD MODULE hive WITH ('hive-version' = '3.1.3')",
        "the module 'hive' is not supported",
    ),
    _refused("UNLOAD MODULE", "UNLOAD MODULE core", "the module core cannot be unloaded"),
    _refused(
        "CREATE MODEL",
        "CREATE MODEL m INPUT (a INT) OUTPUT (b STRING) WITH ('provider' = 'x')",
        "CREATE MODEL",
    ),
    _refused("ALTER MODEL", "ALTER MODEL m RENAME TO n", "ALTER MODEL"),
    _refused("DROP MODEL", "DROP MODEL IF EXISTS m", "DROP MODEL"),
    _refused("DESCRIBE MODEL", "DESCRIBE MODEL m", "DESCRIBE MODEL"),
    _refused("CREATE CONNECTION", "CREATE CONNECTION c WITH ('type' = 'x')", "CREATE CONNECTION"),
    _refused("ALTER CONNECTION", "ALTER CONNECTION c SET ('type' = 'x')", "ALTER CONNECTION"),
    _refused("DROP CONNECTION", "DROP CONNECTION IF EXISTS c", "DROP CONNECTION"),
    _refused(
        "COMPILE PLAN",
        "COMPILE PLAN 'p.json' FOR INSERT INTO copies SELECT auction, price FROM bids",
        "COMPILE PLAN",
    ),
    _refused(
        "COMPILE AND EXECUTE PLAN",
        "COMPILE AND EXECUTE PLAN 'p.json' FOR INSERT INTO copies SELECT auction, price FROM bids",
        "COMPILE AND EXECUTE PLAN",
    ),
    _refused("EXECUTE PLAN", "EXECUTE PLAN 'p.json'", "EXECUTE PLAN"),
)


PARTED = (
    "CREATE TABLE parted (id BIGINT, v DOUBLE, region STRING) PARTITIONED BY (region) "
    "WITH ('connector' = 'delta', 'path' = 'parted');"
)
DAILY = (
    "CREATE MATERIALIZED TABLE daily WITH ('connector' = 'delta', 'path' = 'daily') FRESHNESS = INTERVAL '1' HOUR "
    "AS SELECT id, name FROM people;"
)
LIVE = (
    "CREATE MATERIALIZED TABLE live WITH ('connector' = 'delta', 'path' = 'live') FRESHNESS = INTERVAL '1' MINUTE "
    "AS SELECT auction, price FROM bids;"
)
DISCOUNT = "CREATE FUNCTION discount AS 'pricing.discount' LANGUAGE PYTHON;"


CONFLICT = "INSERT INTO totals SELECT auction, price FROM bids ON CONFLICT DO {}"
REFUSED_CHANGES = (
    "SET ('k' = 'v')",
    "RESET ('k')",
    "SET FRESHNESS = INTERVAL '1' MINUTE",
    "SET REFRESH_MODE = CONTINUOUS",
    "ADD (a INT)",
    "MODIFY WATERMARK FOR ts AS ts",
    "DROP (name)",
    "RENAME TO weekly",
)
"""What ALTER MATERIALIZED TABLE has and Penstock has not."""


def _refused_change(change: str) -> Row:
    words = change.split(" ", 2)
    name = " ".join(words[:2]) if words[1] in ("FRESHNESS", "REFRESH_MODE") else words[0]
    title = f"ALTER MATERIALIZED TABLE ... {name}"
    note = f"{title} is not supported"
    return _refused(title, f"ALTER MATERIALIZED TABLE daily {change}", note, DAILY)


ROWS_CHANGED: tuple[Row, ...] = (
    _spark("INSERT INTO", "INSERT INTO copies SELECT auction, price FROM bids"),
    _spark(
        "INSERT INTO ... (columns)",
        "INSERT INTO copies (price) SELECT price FROM bids",
        "columns that are not named become NULL",
    ),
    _spark(
        "INSERT INTO ... VALUES",
        "INSERT INTO people VALUES (1, 'Ann', DATE '2024-01-01'), (2, 'Bo', NULL)",
    ),
    _spark(
        "INSERT INTO ... PARTITION",
        "INSERT INTO parted PARTITION (region = 'eu') SELECT 1, 2.0",
        "plain values only",
        PARTED,
    ),
    _own(
        "INSERT INTO t /*+ OPTIONS(...) */",
        "INSERT INTO people /*+ OPTIONS('path' = 'elsewhere') */ SELECT id, name, since FROM people "
        "/*+ OPTIONS('read.start.version' = '3') */",
    ),
    _spark(
        "INSERT OVERWRITE",
        "INSERT OVERWRITE people SELECT id, name, since FROM people",
        "tables of delta and filesystem, by a query that ends; in one commit (delta), or files that readers see "
        "change one after the other (filesystem)",
    ),
    _spark(
        "INSERT OVERWRITE ... PARTITION",
        "INSERT OVERWRITE parted PARTITION (region = 'eu') SELECT 1, 2.0",
        "replaces that partition; without PARTITION those that the query has rows for",
        PARTED,
    ),
    _spark("EXECUTE SELECT", "EXECUTE SELECT id, name FROM people"),
    _spark("EXECUTE INSERT", "EXECUTE INSERT INTO copies SELECT auction, price FROM bids"),
    _own(
        "INSERT ... ON CONFLICT DO DEDUPLICATE",
        CONFLICT.format("DEDUPLICATE"),
        "tables that take updates keep the last row of each key, without the clause too; of rows that are updated or "
        "deleted all are kept in the checkpoint, and when the last one of a key is deleted the one before comes back",
    ),
    _own(
        "INSERT ... ON CONFLICT DO NOTHING",
        CONFLICT.format("NOTHING"),
        "the first row that comes of each key, by state in the checkpoint, over streams of rows that stay; a row that "
        "the table has from elsewhere is no conflict, as in Flink",
    ),
    _refused(
        "INSERT ... ON CONFLICT DO ERROR",
        CONFLICT.format("ERROR"),
        "no batch is failed for the keys of its rows",
    ),
    _own(
        "EXECUTE STATEMENT SET",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO copies SELECT auction, price FROM bids; "
        "INSERT INTO people SELECT id, category, CAST(NULL AS DATE) FROM auctions; END",
        "INSERTs that share a source read it once",
    ),
    _own(
        "BEGIN STATEMENT SET",
        "BEGIN STATEMENT SET; INSERT INTO copies SELECT auction, price FROM bids; END",
        "also typed statement by statement in `penstock shell`",
    ),
    _refused(
        "CREATE TABLE ... AS in a statement set",
        "BEGIN STATEMENT SET; CREATE TABLE t WITH ('connector' = 'print') AS SELECT price FROM bids; END",
        "inside a statement set is not supported",
    ),
    _spark(
        "UPDATE",
        "UPDATE people SET name = UPPER(name), since = NULL WHERE id > 10",
        "delta; no subqueries; streams that read the table fail on it, as Delta says",
    ),
    _spark("DELETE FROM", "DELETE FROM people WHERE name IS NULL", "delta; no subqueries"),
    _refused(
        "DELETE with a subquery",
        "DELETE FROM people WHERE id IN (SELECT id FROM auctions)",
        "only values of the row itself can be used here",
    ),
    _spark("TRUNCATE TABLE", "TRUNCATE TABLE people", "delta and filesystem"),
    _refused(
        "ANALYZE TABLE",
        "ANALYZE TABLE people COMPUTE STATISTICS FOR COLUMNS id, name",
        "Delta keeps statistics of each file as it writes it",
    ),
    _refused(
        "ANALYZE TABLE ... FOR ALL COLUMNS",
        "ANALYZE TABLE people COMPUTE STATISTICS FOR ALL COLUMNS",
        "Delta keeps statistics of each file as it writes it",
    ),
    _spark(
        "CALL",
        "CALL lake.system.expire_snapshots('db.t', older_than => TIMESTAMP '2024-01-01 00:00:00')",
        "procedures of Spark's own catalogs; Penstock has none",
    ),
)

FUNCTIONS: tuple[Row, ...] = (
    _spark(
        "CREATE FUNCTION ... LANGUAGE PYTHON",
        "CREATE FUNCTION discount AS 'pricing.discount' LANGUAGE PYTHON",
        "a function with type hints, or decorated with pyspark's @udf, @arrow_udf or @pandas_udf, or a class decorated "
        "with @udtf, which is called in LATERAL TABLE(...) and TABLE(...); called by its name without catalog and "
        "database; a built-in function's name cannot be taken",
    ),
    _spark(
        "CREATE FUNCTION ... LANGUAGE JAVA",
        "CREATE TEMPORARY FUNCTION score AS 'com.example.Score' LANGUAGE JAVA USING JAR 'score.jar'",
        "a class that implements one of org.apache.spark.sql.api.java.UDF0 to UDF22; Flink's classes do not",
    ),
    _spark(
        "CREATE TEMPORARY SYSTEM FUNCTION",
        "CREATE TEMPORARY SYSTEM FUNCTION IF NOT EXISTS discount AS 'pricing.discount' LANGUAGE PYTHON",
    ),
    _refused(
        "CREATE FUNCTION ... LANGUAGE SCALA",
        "CREATE FUNCTION f AS 'com.example.F' LANGUAGE SCALA",
        "functions in Scala are not supported",
    ),
    _refused(
        "CREATE FUNCTION ... WITH",
        "CREATE FUNCTION f AS 'm.f' LANGUAGE PYTHON WITH ('k' = 'v')",
        "options of a function are not supported",
    ),
    _refused(
        "CREATE FUNCTION ... USING ARTIFACT",
        "CREATE FUNCTION f AS 'm.f' LANGUAGE PYTHON USING ARTIFACT 'm.zip'",
        "USING ARTIFACT is not supported",
    ),
    _refused(
        "CREATE FUNCTION of a built-in name",
        "CREATE TEMPORARY SYSTEM FUNCTION upper AS 'm.f' LANGUAGE PYTHON",
        "UPPER is a built-in function",
    ),
    _own(
        "ALTER FUNCTION", "ALTER FUNCTION discount AS 'pricing.other' LANGUAGE PYTHON", "", DISCOUNT
    ),
    _own("DROP FUNCTION", "DROP FUNCTION IF EXISTS discount", "", DISCOUNT),
)

MATERIALIZED: tuple[Row, ...] = (
    _own(
        "CREATE MATERIALIZED TABLE ... CONTINUOUS",
        "CREATE MATERIALIZED TABLE live (PRIMARY KEY (auction) NOT ENFORCED) "
        "WITH ('connector' = 'delta', 'path' = 'live') FRESHNESS = INTERVAL '1' MINUTE REFRESH_MODE = CONTINUOUS "
        "AS SELECT auction, CAST(MAX(price) AS DECIMAL(10, 2)) AS best FROM bids GROUP BY auction",
        "a streaming query with a batch each FRESHNESS (3 minutes if none is given), as long as its runner runs",
    ),
    _own(
        "CREATE MATERIALIZED TABLE ... FULL",
        "CREATE MATERIALIZED TABLE daily COMMENT 'people' PARTITIONED BY (name) "
        "WITH ('connector' = 'delta', 'path' = 'daily') FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL "
        "AS SELECT id, name FROM people",
        "written as a whole, in one commit, when it is created, by REFRESH, and at each multiple of FRESHNESS (UTC; an "
        "hour if none is given) as long as its runner runs. Without REFRESH_MODE a FRESHNESS of 30 minutes or more "
        "means FULL",
    ),
    _own(
        "CREATE MATERIALIZED TABLE ... DISTRIBUTED BY",
        "CREATE MATERIALIZED TABLE spread DISTRIBUTED BY (id) INTO 4 BUCKETS "
        "WITH ('connector' = 'delta', 'path' = 'spread') AS SELECT id, name FROM people",
        "kept and shown, as of other tables",
    ),
    _own(
        "CREATE OR ALTER MATERIALIZED TABLE",
        "CREATE OR ALTER MATERIALIZED TABLE live WITH ('connector' = 'delta', 'path' = 'live') "
        "AS SELECT auction, price FROM bids",
        "resumes from the checkpoint when a file is run again; refused where its state does not fit the new query",
    ),
    _own("ALTER MATERIALIZED TABLE ... SUSPEND", "ALTER MATERIALIZED TABLE live SUSPEND", "", LIVE),
    _own("ALTER MATERIALIZED TABLE ... RESUME", "ALTER MATERIALIZED TABLE live RESUME", "", LIVE),
    _own(
        "ALTER MATERIALIZED TABLE ... SUSPEND of FULL",
        "ALTER MATERIALIZED TABLE daily SUSPEND",
        "REFRESH still writes it",
        DAILY,
    ),
    _own(
        "ALTER MATERIALIZED TABLE ... RESUME of FULL",
        "ALTER MATERIALIZED TABLE daily RESUME",
        "refreshed at once, too",
        DAILY,
    ),
    _refused(
        "ALTER MATERIALIZED TABLE ... RESUME WITH",
        "ALTER MATERIALIZED TABLE live RESUME WITH ('k' = 'v')",
        "RESUME WITH (...) is not supported",
        LIVE,
    ),
    _own(
        "ALTER MATERIALIZED TABLE ... REFRESH",
        "ALTER MATERIALIZED TABLE daily REFRESH",
        "FULL only",
        DAILY,
    ),
    _own(
        "ALTER MATERIALIZED TABLE ... REFRESH PARTITION",
        "ALTER MATERIALIZED TABLE parts REFRESH PARTITION (name = 'Ann')",
        "FULL only",
        DAILY.replace("daily", "parts").replace(" WITH (", " PARTITIONED BY (name) WITH (", 1),
    ),
    _refused(
        "ALTER MATERIALIZED TABLE ... REFRESH of CONTINUOUS",
        "ALTER MATERIALIZED TABLE live REFRESH",
        "is refreshed by its streaming query",
        LIVE,
    ),
    _own(
        "ALTER MATERIALIZED TABLE ... AS",
        "ALTER MATERIALIZED TABLE daily AS SELECT id, UPPER(name) AS name FROM people",
        "FULL only, with the same columns",
        DAILY,
    ),
    *(_refused_change(change) for change in REFUSED_CHANGES),
    _own("DROP MATERIALIZED TABLE", "DROP MATERIALIZED TABLE IF EXISTS daily", "", DAILY),
)

SHOWN: tuple[Row, ...] = (
    _own("SHOW CATALOGS", "SHOW CATALOGS NOT ILIKE 'tmp%'"),
    _own("SHOW CURRENT CATALOG", "SHOW CURRENT CATALOG"),
    _own("SHOW DATABASES", "SHOW DATABASES FROM default_catalog LIKE 'd%'"),
    _own("SHOW CURRENT DATABASE", "SHOW CURRENT DATABASE"),
    _own("SHOW TABLES", "SHOW TABLES FROM default_database LIKE 'p%'"),
    _own("SHOW VIEWS", "SHOW VIEWS NOT LIKE 'x%'"),
    _own("SHOW CREATE MATERIALIZED TABLE", "SHOW CREATE MATERIALIZED TABLE daily", "", DAILY),
    _own(
        "SHOW CREATE OR ALTER MATERIALIZED TABLE",
        "SHOW CREATE OR ALTER MATERIALIZED TABLE daily",
        "",
        DAILY,
    ),
    _refused("SHOW CREATE MODEL", "SHOW CREATE MODEL m", "SHOW CREATE MODEL is not supported"),
    _own("DESCRIBE", "DESC EXTENDED bids", "EXTENDED shows no more"),
    _own("SHOW MATERIALIZED TABLES", "SHOW MATERIALIZED TABLES IN default_database"),
    _own("SHOW COLUMNS", "SHOW COLUMNS FROM bids NOT LIKE '%id%'"),
    _own(
        "SHOW PARTITIONS",
        "SHOW PARTITIONS parted PARTITION (region = 'eu')",
        "delta and filesystem",
        PARTED,
    ),
    _own("SHOW FUNCTIONS", "SHOW FUNCTIONS LIKE 'to_%'"),
    _own("SHOW USER FUNCTIONS", "SHOW USER FUNCTIONS"),
    _own(
        "SHOW PROCEDURES",
        "SHOW PROCEDURES",
        "Penstock's catalogs have none; FROM names one of Spark's",
    ),
    _own("SHOW MODULES", "SHOW MODULES", "core"),
    _own("SHOW FULL MODULES", "SHOW FULL MODULES", "core"),
    _own("SHOW JARS", "SHOW JARS"),
    _own("SHOW SECRETS", "SHOW SECRETS LIKE 'kafka%'", "not in Flink: names and times"),
    _own(
        "SHOW JOBS",
        "SHOW JOBS",
        "jobs of this session, and of other runners on the same catalog; a job's name is its id",
    ),
    _refused("SHOW MODELS", "SHOW MODELS", "Penstock runs no models"),
    _refused("SHOW CONNECTIONS", "SHOW CONNECTIONS", "SHOW CONNECTIONS is not supported"),
    _own("DESCRIBE CATALOG", "DESCRIBE CATALOG EXTENDED default_catalog"),
    _own("DESCRIBE DATABASE", "DESC DATABASE EXTENDED default_database"),
    _own("DESCRIBE FUNCTION", "DESCRIBE FUNCTION EXTENDED upper"),
    _own("DESCRIBE JOB", "DESCRIBE JOB 'etl/copies'"),
)

STATEMENTS: tuple[Row, ...] = (*ROWS_CHANGED, *FUNCTIONS, *MATERIALIZED, *SHOWN, *SESSION)
