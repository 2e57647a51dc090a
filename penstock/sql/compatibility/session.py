"""Statements about the session: EXPLAIN, SET, jars, jobs, secrets, modules; and what there is no use for."""

from __future__ import annotations

from penstock.sql.compatibility.row import Kind, Row, Status

__all__ = ["SESSION"]

KEY = "CREATE SECRET key AS 'f2b9-example';"
SECRETS_NOTE = "not in Flink: a value that options of tables refer to as ${secret:name}"


def _row(status: Status, name: str, example: str, note: str = "", given: str = "") -> Row:
    return Row(Kind.STATEMENT, name, example, status, note, given)


def _own(name: str, example: str, note: str = "", given: str = "") -> Row:
    return _row(Status.OWN, name, example, note, given)


def _spark(name: str, example: str, note: str = "", given: str = "") -> Row:
    return _row(Status.TRANSLATE, name, example, note, given)


def _refused(name: str, example: str, note: str, given: str = "") -> Row:
    return _row(Status.REFUSE, name, example, note, given)


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
