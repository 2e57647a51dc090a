"""Dates and times: TimeFunctionsITCase, ScalarFunctionsTest, TemporalTypesTest, and the function page."""

from __future__ import annotations

from datetime import date

from tests.sql.dialect.answers import Answers, local

__all__ = ["ANSWERS"]

STAMP = "TIMESTAMP '1996-11-10 06:55:44.333'"
LATER = "CAST('2020-02-29 01:56:59.987654' AS TIMESTAMP(6))"
DAY = "DATE '1990-10-14'"
# in words: the test's own clock would turn an instant into the machine's time zone
UTC = "CAST({} AS STRING)"

EXTRACTED: Answers = [
    (f"EXTRACT({unit} FROM {LATER})", answer)
    for unit, answer in [
        ("NANOSECOND", 987654000),
        ("MICROSECOND", 987654),
        ("MILLISECOND", 987),
        ("SECOND", 59),
        ("MINUTE", 56),
        ("HOUR", 1),
        ("DAY", 29),
        ("WEEK", 9),
        ("MONTH", 2),
        ("QUARTER", 1),
        ("YEAR", 2020),
        ("DECADE", 202),
        ("CENTURY", 21),
        ("MILLENNIUM", 3),
        ("EPOCH", 1582941419),
    ]
]
CUT: Answers = [
    (f"{function}({value} TO {unit})", answer)
    for function, value, unit, answer in [
        ("FLOOR", LATER, "MILLISECOND", local(2020, 2, 29, 1, 56, 59, 987000)),
        ("FLOOR", LATER, "SECOND", local(2020, 2, 29, 1, 56, 59)),
        ("FLOOR", LATER, "HOUR", local(2020, 2, 29, 1)),
        ("FLOOR", LATER, "DAY", local(2020, 2, 29)),
        ("FLOOR", LATER, "WEEK", local(2020, 2, 23)),
        ("FLOOR", LATER, "QUARTER", local(2020, 1, 1)),
        ("FLOOR", LATER, "CENTURY", local(2001, 1, 1)),
        ("FLOOR", DAY, "HOUR", date(1990, 10, 14)),
        ("FLOOR", DAY, "WEEK", date(1990, 10, 14)),
        ("FLOOR", DAY, "DECADE", date(1990, 1, 1)),
        ("FLOOR", DAY, "MILLENNIUM", date(1001, 1, 1)),
        ("CEIL", LATER, "MILLISECOND", local(2020, 2, 29, 1, 56, 59, 988000)),
        ("CEIL", LATER, "MINUTE", local(2020, 2, 29, 1, 57)),
        ("CEIL", LATER, "DAY", local(2020, 3, 1)),
        ("CEIL", LATER, "WEEK", local(2020, 3, 1)),
        ("CEIL", LATER, "YEAR", local(2021, 1, 1)),
        ("CEIL", LATER, "DECADE", local(2030, 1, 1)),
        ("CEIL", DAY, "DAY", date(1990, 10, 15)),
        ("CEIL", DAY, "WEEK", date(1990, 10, 14)),
        ("CEIL", DAY, "QUARTER", date(1991, 1, 1)),
        ("CEIL", DAY, "CENTURY", date(2001, 1, 1)),
        ("CEIL", "DATE '1996-11-01'", "MONTH", date(1996, 11, 1)),
    ]
]
# DateTimeUtils.subtractMonths; the last day of a month stands for those behind it
MONTHS: Answers = [
    (f"TIMESTAMPDIFF({unit}, {first}, {last})", answer)
    for unit, first, last, answer in [
        ("MONTH", "TIMESTAMP '2026-01-31 00:00:00'", "TIMESTAMP '2026-03-30 00:00:00'", 1),
        ("MONTH", "TIMESTAMP '2026-01-31 00:00:00'", "TIMESTAMP '2026-02-28 00:00:00'", 1),
        ("MONTH", "TIMESTAMP '2026-02-28 00:00:00'", "TIMESTAMP '2026-01-31 00:00:00'", -1),
        ("MONTH", "DATE '2026-08-31'", "DATE '2026-09-30'", 1),
        ("MONTH", "DATE '2026-09-30'", "DATE '2026-08-31'", -1),
        ("MONTH", "DATE '2026-08-31'", "DATE '2026-09-29'", 0),
        ("MONTH", "DATE '2026-03-01'", "DATE '2026-01-31'", -1),
        ("MONTH", "DATE '2026-02-27'", "DATE '2026-01-31'", 0),
        ("MONTH", "DATE '2026-01-15'", "DATE '2026-01-15'", 0),
        ("MONTH", "DATE '2026-01-15'", "TIMESTAMP '2026-03-15 00:00:00'", 2),
        ("MONTH", "TIMESTAMP '2026-01-15 12:00:00'", "DATE '2026-03-15'", 1),
        ("MONTH", "TIMESTAMP '2026-01-15 12:00:00'", "TIMESTAMP '2026-02-15 11:59:59.999'", 0),
        ("MONTH", "TIMESTAMP '2026-01-15 12:00:00'", "TIMESTAMP '2026-02-15 12:00:00'", 1),
        ("MONTH", "TIMESTAMP '2026-02-15 12:00:00'", "TIMESTAMP '2026-01-15 10:00:00'", -2),
        ("MONTH", "TIMESTAMP '2026-02-15 10:00:00'", "TIMESTAMP '2026-01-15 12:00:00'", -1),
        ("MONTH", "TIMESTAMP '1969-11-30 12:00:00'", "TIMESTAMP '1970-02-28 12:00:00'", 3),
        ("QUARTER", "DATE '2025-11-30'", "DATE '2026-02-28'", 1),
        ("QUARTER", "DATE '2026-02-28'", "DATE '2025-12-31'", 0),
        ("YEAR", "DATE '2024-02-29'", "DATE '2025-02-28'", 1),
        ("YEAR", "DATE '2025-02-28'", "DATE '2024-02-29'", -1),
        ("YEAR", "DATE '2024-02-29'", "DATE '2025-02-27'", 0),
        ("YEAR", "DATE '2026-01-15'", "CAST(NULL AS DATE)", None),
        ("MONTH", "CAST(NULL AS TIMESTAMP(3))", "TIMESTAMP '2026-01-15 12:00:00'", None),
        ("MONTH", "TO_TIMESTAMP_LTZ(1769817600, 0)", "TO_TIMESTAMP_LTZ(1772236800, 0)", 1),
        ("MONTH", "TO_TIMESTAMP_LTZ(1772236800, 0)", "TO_TIMESTAMP_LTZ(1769817600, 0)", -1),
    ]
]
FORMATTED: Answers = [
    (f"DATE_FORMAT({value}, '{pattern}')", answer)
    for value, pattern, answer in [
        (LATER, "yyyy-MM-dd HH:mm:ss", "2020-02-29 01:56:59"),
        (LATER, "yyyyMMddHHmmssSSS", "20200229015659987"),
        (LATER, "ss.SSSSSS''Z''", "59.987654Z"),
        (LATER, "HH:mm, dd/MM/yyyy", "01:56, 29/02/2020"),
        (LATER, "MM-HH", "02-01"),
        (LATER, "HH.", "01."),
        (LATER, "''''yyyy", "'2020"),
        (LATER, "''it''''s'' yyyy", "it's 2020"),
        (LATER, "-", "-"),
        (LATER, "EEE, d MMM yy h:mm a", "Sat, 29 Feb 20 1:56 AM"),
        (LATER, "H D", "1 60"),
        (LATER, "[yyyy]", "2020"),
        ("TIMESTAMP '2020-02-29 01:56:59'", "SSS ss", "000 59"),
        ("CAST(NULL AS TIMESTAMP(3))", "yyyy", None),
        ("CAST(NULL AS TIMESTAMP(3))", "-", None),
        ("'2020-02-29 01:56:59.5'", "HH:mm:ss.S", "01:56:59.5"),
        ("'x'", "yyyy", None),
        ("TIMESTAMP '0044-03-15 12:00:00'", "dd.MM.yyyy", "15.03.0044"),
    ]
]
ANSWERS: Answers = [
    ("DATE '2006-06-05'", date(2006, 6, 5)),
    ("TIMESTAMP '2006-06-05 10:11:12.5'", local(2006, 6, 5, 10, 11, 12, 500000)),
    ("CURRENT_DATE = CAST(LOCALTIMESTAMP AS DATE)", True),
    ("CURRENT_TIMESTAMP = NOW()", True),
    ("CURRENT_ROW_TIMESTAMP() = PROCTIME()", True),
    *EXTRACTED,
    ("EXTRACT(DOY FROM DATE '1996-11-10')", 315),
    ("EXTRACT(DOW FROM DATE '1996-11-10')", 1),
    ("EXTRACT(ISODOW FROM DATE '1996-11-10')", 7),
    ("EXTRACT(ISOYEAR FROM DATE '1996-11-10')", 1996),
    ("EXTRACT(WEEK FROM DATE '2021-01-01')", 53),
    ("EXTRACT(DAY FROM INTERVAL '10 07:23:33' DAY TO SECOND)", 10),
    ("EXTRACT(MONTH FROM INTERVAL '2-1' YEAR TO MONTH)", 1),
    ("YEAR(DATE '1994-09-27')", 1994),
    ("QUARTER(DATE '1994-09-27')", 3),
    ("MONTH(DATE '1994-09-27')", 9),
    ("WEEK(DATE '1994-09-27')", 39),
    ("DAYOFYEAR(DATE '1994-09-27')", 270),
    ("DAYOFMONTH(DATE '1994-09-27')", 27),
    ("DAYOFWEEK(DATE '1994-09-27')", 3),
    ("HOUR(TIMESTAMP '1994-09-27 13:14:15')", 13),
    ("MINUTE(TIMESTAMP '1994-09-27 13:14:15')", 14),
    ("SECOND(TIMESTAMP '1994-09-27 13:14:15')", 15),
    *CUT,
    (
        f"CAST(CEIL(CAST({STAMP} AS TIMESTAMP_LTZ(3)) TO HOUR) AS STRING)",
        "1996-11-10 07:00:00.000",
    ),
    (
        "(DATE '2011-03-10', INTERVAL '10' DAY) OVERLAPS (DATE '2011-03-19', INTERVAL '10' DAY)",
        True,
    ),
    (
        "(TIMESTAMP '2011-03-10 05:02:02', INTERVAL '0' SECOND) OVERLAPS "
        "(TIMESTAMP '2011-03-10 05:02:02', TIMESTAMP '2011-03-10 05:02:01')",
        True,
    ),
    (
        "(TIMESTAMP '2011-03-10 02:02:02.001', INTERVAL '0' SECOND) OVERLAPS "
        "(TIMESTAMP '2011-03-10 02:02:02.002', TIMESTAMP '2011-03-10 02:02:02.002')",
        False,
    ),
    ("DATE_FORMAT(TIMESTAMP '2026-01-02 03:04:05', 'yyyy/MM/dd HH')", "2026/01/02 03"),
    *FORMATTED,
    ("TIMESTAMPADD(DAY, 1, DATE '2016-06-15')", date(2016, 6, 16)),
    ("TIMESTAMPADD(MONTH, 5, DATE '2016-01-31')", date(2016, 6, 30)),
    ("TIMESTAMPADD(WEEK, CAST(-1 AS TINYINT), DATE '2021-10-30')", date(2021, 10, 23)),
    ("TIMESTAMPADD(HOUR, -1, DATE '2016-06-15')", local(2016, 6, 14, 23)),
    ("TIMESTAMPADD(HOUR, CAST(NULL AS INT), TIMESTAMP '2016-02-24 12:42:25')", None),
    (
        "TIMESTAMPDIFF(DAY, TIMESTAMP '2018-07-03 11:11:11', TIMESTAMP '2018-07-05 11:11:11')",
        2,
    ),
    ("TIMESTAMPDIFF(DAY, DATE '2016-06-15', TIMESTAMP '2016-06-16 11:11:11')", 1),
    *MONTHS,
    (
        "TIMESTAMPDIFF(SECOND, TIMESTAMP '2026-01-01 00:01:00', TIMESTAMP '2026-01-01 00:00:00')",
        -60,
    ),
    ("CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')", "1969-12-31 16:00:00"),
    ("CONVERT_TZ('x', 'UTC', 'America/Los_Angeles')", None),
    ("FROM_UNIXTIME(44)", "1970-01-01 00:00:44"),
    ("FROM_UNIXTIME(0, 'dd.MM.yyyy')", "01.01.1970"),
    ("UNIX_TIMESTAMP() > 1700000000", True),
    ("UNIX_TIMESTAMP('1970-01-01 08:00:01')", 28801),
    ("UNIX_TIMESTAMP('1970-01-01 08:00:01.001')", 28801),
    ("UNIX_TIMESTAMP('1970-01-01 08:00:01.001 +0800', 'yyyy-MM-dd HH:mm:ss.SSS X')", 1),
    ("UNIX_TIMESTAMP('1970-01-01 08:00:01.001', 'yyyy-MM-dd HH:mm:ss.SSS X')", -(2**63)),
    ("UNIX_TIMESTAMP(CAST(NULL AS STRING))", None),
    ("TO_DATE('2017-09-15 00:00:00')", date(2017, 9, 15)),
    ("TO_DATE('15.09.2017', 'dd.MM.yyyy')", date(2017, 9, 15)),
    ("TO_DATE('x')", None),
    ("TO_TIMESTAMP('2017-09-15 00:00:00')", local(2017, 9, 15)),
    ("TO_TIMESTAMP('2017-09-15 00:00:00.123456')", local(2017, 9, 15, 0, 0, 0, 123000)),
    ("TO_TIMESTAMP('20170915000000', 'yyyyMMddHHmmss')", local(2017, 9, 15)),
    ("TO_TIMESTAMP('1999-9-10 05:20:10', 'yyyy-MM-dd HH:mm:ss')", local(1999, 9, 10, 5, 20, 10)),
    ("TO_TIMESTAMP('2017-09-15', 'yyyy-MM-dd HH:mm:ss')", local(2017, 9, 15)),
    ("TO_TIMESTAMP('abc')", None),
    ("TO_TIMESTAMP(CAST(NULL AS STRING), 'yyyy')", None),
    (UTC.format("TO_TIMESTAMP_LTZ(100)"), "1970-01-01 00:00:00.100"),
    (UTC.format("TO_TIMESTAMP_LTZ(1234, 3)"), "1970-01-01 00:00:01.234"),
    (UTC.format("TO_TIMESTAMP_LTZ(-100, 0)"), "1969-12-31 23:58:20.000"),
    (UTC.format("TO_TIMESTAMP_LTZ(100.01, 3)"), "1970-01-01 00:00:00.100"),
    ("TO_TIMESTAMP_LTZ(9223372036854775807, 3)", None),
    (UTC.format("TO_TIMESTAMP_LTZ('2023-01-01 00:00:00')"), "2023-01-01 00:00:00.000"),
    (UTC.format("TO_TIMESTAMP_LTZ('1970-01-01 00:00:00.123456789')"), "1970-01-01 00:00:00.123"),
    (
        UTC.format("TO_TIMESTAMP_LTZ('01/01/2023 00:00:00', 'dd/MM/yyyy HH:mm:ss')"),
        "2023-01-01 00:00:00.000",
    ),
    (
        UTC.format("TO_TIMESTAMP_LTZ('2017-09-15 00:00:00.12345', 'yyyy-MM-dd HH:mm:ss.SSS')"),
        "2017-09-15 00:00:00.123",
    ),
    (
        UTC.format(
            "TO_TIMESTAMP_LTZ('2023-01-01 00:00:00', 'yyyy-MM-dd HH:mm:ss', 'Asia/Shanghai')"
        ),
        "2022-12-31 16:00:00.000",
    ),
    ("TO_TIMESTAMP_LTZ('un-parsable', 'yyyy-MM-dd HH:mm:ss', 'UTC')", None),
    ("TO_TIMESTAMP_LTZ('1970-01-01 00:00:00.12345', CAST(NULL AS STRING))", None),
]
