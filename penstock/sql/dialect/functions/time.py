"""Built-in functions of dates and times: what each returns and how Spark says the same.

Flink's rules are those of DateTimeUtils; its answers in the tests come from TimeFunctionsITCase,
ScalarFunctionsTest and TemporalTypesTest.
"""

from __future__ import annotations

from penstock.sql.dialect.functions.row import LAST, Family, FunctionRow, method, row

T = Family.TEMPORAL

# Epoch range in which Flink's TO_TIMESTAMP_LTZ has a result: years 0000 to 9999
# (DateTimeUtils.toTimestampData); outside it is NULL, where Spark fails the query.
MIN_SECONDS, MAX_SECONDS = -62_167_219_200, 253_402_300_799
MIN_MILLIS, MAX_MILLIS = -62_167_219_200_000, 253_402_300_799_999

# What Flink's one-argument TO_TIMESTAMP takes (DateTimeUtils.DEFAULT_TIMESTAMP_FORMATTER).
TIMESTAMP_PATTERN = (
    "^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    "( ([01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9](\\\\.[0-9]{1,9})?)?$"
)
# Braces are doubled because a form is filled with str.format.
PATTERN_IN_FORM = TIMESTAMP_PATTERN.replace("{", "{{").replace("}", "}}")

# Results have milliseconds (FLINK-14925): what is finer is cut off the text.
CUT = "regexp_replace({0}, '([.][0-9]{{3}})[0-9]+$', '$1')"
READ_PLAIN = f"CASE WHEN {{0}} RLIKE '{PATTERN_IN_FORM}' THEN try_cast({CUT} AS TIMESTAMP_NTZ) END"
# A timestamp without zone, read with a pattern; NULL if the text does not fit. Spark has no
# try_to_timestamp_ntz: the text is read as if in UTC, so that no session zone shifts it.
READ_UTC = "try_to_timestamp(concat({0}, ' +0000'), concat({1}, ' xx'))"
READ_NTZ = (
    f"timestampadd(MILLISECOND, unix_millis({READ_UTC}), TIMESTAMP_NTZ '1970-01-01 00:00:00')"
)
# What does not fit a pattern may still be a timestamp or date as Timestamp.valueOf reads it
# (DateTimeUtils.parseTimestampData).
READ_PATTERN = (
    f"coalesce({READ_NTZ}, CASE WHEN {{1}} IS NOT NULL AND trim({{0}}) RLIKE '{PATTERN_IN_FORM}' "
    f"THEN try_cast(trim({CUT}) AS TIMESTAMP_NTZ) END)"
)
# TO_TIMESTAMP_LTZ of a text: it is in UTC unless a zone is given.
READ_INSTANT = (
    f"CASE WHEN trim({{0}}) RLIKE '{PATTERN_IN_FORM}' THEN "
    f"try_cast(concat(trim({CUT}), if(contains({{0}}, ':'), 'Z', ' 00:00:00Z')) AS TIMESTAMP) END"
)
LTZ_PLAIN = READ_INSTANT.replace("trim({0})", "{0}").replace(f"trim({CUT})", CUT)
LTZ_PATTERN = (
    f"if({{1}} IS NULL, NULL, coalesce(timestamp_millis(unix_millis({READ_UTC})), {READ_INSTANT}))"
)
LTZ_ZONE = f"try_cast(concat(CAST(convert_timezone({{2}}, 'UTC', {READ_PATTERN}) AS STRING), 'Z') AS TIMESTAMP)"
# SimpleDateFormat reads the beginning of a text; what it cannot read is Long.MIN_VALUE.
UNREAD = "-9223372036854775808"
UNIX_PLAIN = (
    "CASE WHEN {0} IS NOT NULL THEN coalesce(unix_seconds(try_cast(regexp_extract({0}, "
    "'^[0-9]{{1,4}}-[0-9]{{1,2}}-[0-9]{{1,2}} [0-9]{{1,2}}:[0-9]{{1,2}}:[0-9]{{1,2}}', 0) "
    f"AS TIMESTAMP)), {UNREAD}) END"
)
UNIX_PATTERN = (
    "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN "
    f"coalesce(unix_seconds(try_to_timestamp({{0}}, {{1}})), {UNREAD}) END"
)
LENIENT = "the text fits the pattern as a whole, and its day is in the calendar (Flink reads 30 February too)"
PATTERNS = "letters of a pattern are those of Spark: no week year (Y), week (w, W), u or n"

ROWS: tuple[FunctionRow, ...] = (
    row(T, "NOW", "TIMESTAMP_LTZ(3)", "NOW()", "current_timestamp()", least=0),
    row(
        T,
        "CURRENT_ROW_TIMESTAMP",
        "TIMESTAMP_LTZ(3)",
        "CURRENT_ROW_TIMESTAMP()",
        "current_timestamp()",
        least=0,
        note="the time of the micro-batch, the same for all of its rows",
    ),
    *(
        row(T, name, "BIGINT", example, f"CAST({spark} AS BIGINT)")
        for name, spark, example in (
            ("YEAR", "year({0})", "YEAR(DATE '1994-09-27')"),
            ("QUARTER", "quarter({0})", "QUARTER(DATE '1994-09-27')"),
            ("MONTH", "month({0})", "MONTH(DATE '1994-09-27')"),
            ("WEEK", "weekofyear({0})", "WEEK(DATE '1994-09-27')"),
            ("DAYOFYEAR", "dayofyear({0})", "DAYOFYEAR(DATE '1994-09-27')"),
            ("DAYOFMONTH", "dayofmonth({0})", "DAYOFMONTH(DATE '1994-09-27')"),
            ("DAYOFWEEK", "dayofweek({0})", "DAYOFWEEK(DATE '1994-09-27')"),
            ("HOUR", "hour({0})", "HOUR(TIMESTAMP '1994-09-27 13:14:15')"),
            ("MINUTE", "minute({0})", "MINUTE(TIMESTAMP '1994-09-27 13:14:15')"),
            ("SECOND", "second({0})", "SECOND(TIMESTAMP '1994-09-27 13:14:15')"),
        )
    ),
    method(
        T,
        "DATE_FORMAT",
        "STRING",
        "DATE_FORMAT(TIMESTAMP '2026-01-02 03:04:05', 'yyyy/MM/dd HH')",
        2,
        2,
        note=f"{PATTERNS}; of a TIMESTAMP and a pattern that is no literal, an hour that the session's time zone "
        "leaves out is the next one",
    ),
    method(T, "TIMESTAMPADD", LAST, "TIMESTAMPADD(DAY, 1, DATE '2016-06-15')", 3, 3),
    method(
        T,
        "TIMESTAMPDIFF",
        "INT",
        "TIMESTAMPDIFF(DAY, TIMESTAMP '2018-07-03 11:11:11', TIMESTAMP '2018-07-05 11:11:11')",
        3,
        3,
    ),
    row(
        T,
        "CONVERT_TZ",
        "STRING",
        "CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')",
        # not by date_format, which goes through the session's zone
        "left(CAST(convert_timezone({1}, {2}, try_cast({0} AS TIMESTAMP_NTZ)) AS STRING), 19)",
        least=3,
        note="a time zone that is not there fails the query (Flink: UTC)",
    ),
    method(
        T,
        "FROM_UNIXTIME",
        "STRING",
        "FROM_UNIXTIME(44)",
        1,
        2,
        note=PATTERNS,
    ),
    row(
        T,
        "UNIX_TIMESTAMP",
        "BIGINT",
        "UNIX_TIMESTAMP('1970-01-01 08:00:01')",
        "unix_timestamp()",
        UNIX_PLAIN,
        UNIX_PATTERN,
        least=0,
        note=f"with a pattern {LENIENT}",
    ),
    row(
        T,
        "TO_DATE",
        "DATE",
        "TO_DATE('2017-09-15 00:00:00')",
        "try_cast({0} AS DATE)",
        "try_to_date({0}, {1})",
        note=LENIENT,
    ),
    row(
        T,
        "TO_TIMESTAMP",
        "TIMESTAMP(3)",
        "TO_TIMESTAMP('20170915000000', 'yyyyMMddHHmmss')",
        READ_PLAIN,
        READ_PATTERN,
        note=LENIENT,
    ),
    method(
        T,
        "TO_TIMESTAMP_LTZ",
        "TIMESTAMP_LTZ(3)",
        "TO_TIMESTAMP_LTZ(1234, 3)",
        1,
        3,
        note=f"{LENIENT}; a time zone that is not there fails the query (Flink: NULL)",
    ),
)
