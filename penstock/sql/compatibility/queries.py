"""The forms of a query: clauses, windows, joins, set operations; what streams do with each is in the notes."""

from __future__ import annotations

from penstock.sql.compatibility.row import Kind, Row, Status

UPDATING = "on a stream its results are maintained incrementally: the sink has to take updates"
FIRST_COMES = f"{UPDATING}; of rows with equal order the one that came first is first, as in Flink"
LAST_STAYS = f"{UPDATING}; of rows with equal times the one that came last stays, as in Flink"
IN_WINDOWS = f"{UPDATING}; Flink gives them when the watermark closes the window"
BOUNDED = "for bounded tables"
MAINTAINED = "state is kept beside the checkpoint; the sink has to take updates"
INCREMENTAL = (
    "on a stream its results are maintained incrementally, with state beside the checkpoint: the sink has to take "
    "updates"
)
SETS = (
    "its key is known where GROUPING_ID of the columns is selected beside them; the PRIMARY KEY of a Delta table takes "
    "no NULL: COALESCE(auction, -1) where a set leaves the column out"
)
PASSED = (
    "a row is emitted when the watermark has passed it, in order, and never changes; late ones are dropped and "
    "counted"
)
CLOSED = "rows are emitted when the watermark closes the window, and never change"
LOCAL = (
    "over TIMESTAMP_LTZ and PROCTIME() cut in `table.local-time-zone`, as in Flink, also HOP and CUMULATE; where the "
    "offset of the zone has changed since 2000 the size has to divide its changes (hours in Europe/Berlin: of the hour "
    "that comes twice in autumn both are a window, in Flink one), and other windows (days) are refused: put the "
    "WATERMARK on a column CAST(at AS TIMESTAMP(3)). A zone that only Spark's own settings give moves no windows"
)


WORDS = "CREATE FUNCTION words AS 'texts.words' LANGUAGE PYTHON;"


def _row(name: str, example: str, status: Status, note: str = "", setup: str = "") -> Row:
    return Row(Kind.QUERY, name, example, status, note, setup)


def _hint(name: str, example: str, status: Status, note: str = "") -> Row:
    return Row(Kind.HINT, name, example, status, note)


BLOCKS: tuple[Row, ...] = (
    _row("SELECT ... FROM ... WHERE", "SELECT auction, price FROM bids WHERE price > 100", Status.NATIVE),
    _row("SELECT without FROM", "SELECT 1 AS one, 'a' AS letter", Status.NATIVE),
    _row("SELECT ALL", "SELECT ALL auction FROM bids", Status.NATIVE),
    _row("SELECT *", "SELECT *, price * 2 AS twice FROM people CROSS JOIN (VALUES (1)) AS v (price)", Status.NATIVE),
    _row("aliases", "SELECT b.auction AS a, b.price p FROM bids AS b", Status.NATIVE),
    _row("quoted names", "SELECT `auction` AS `the auction` FROM `bids`", Status.NATIVE),
    _row("fields of rows", "SELECT b.item.id, item.name FROM bids AS b", Status.NATIVE),
    _row("elements of arrays and maps", "SELECT tags[1], attributes['x'] FROM bids", Status.TRANSLATE,
         "arrays count from 1; NULL where there is none, as in Flink"),
    _row("VALUES", "VALUES (1, 'a'), (2, 'b')", Status.NATIVE),
    _row("VALUES in FROM", "SELECT v.id FROM (VALUES (1, 'a'), ROW(2, 'b')) AS v (id, name)", Status.NATIVE),
    _row("TABLE name", "TABLE people", Status.TRANSLATE, "as SELECT * FROM people"),
    _row("subquery in FROM", "SELECT a FROM (SELECT auction AS a FROM bids) AS s", Status.NATIVE),
    _row("scalar subquery", "SELECT (SELECT MAX(id) FROM people) AS m", Status.NATIVE, BOUNDED),
    _row("view", "SELECT auction FROM expensive", Status.OWN),
    _row("WITH", "WITH a (x) AS (SELECT auction FROM bids), b AS (SELECT x FROM a) SELECT x FROM b", Status.NATIVE),
    _row("WITH RECURSIVE", "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
         Status.REFUSE, "WITH RECURSIVE is not supported"),
    _row("SELECT DISTINCT", "SELECT DISTINCT category FROM auctions", Status.OWN,
         "on a stream of inserts it gives inserts, which every sink takes; each row that came is kept"),
    _row("ORDER BY", "SELECT id, name FROM people ORDER BY name DESC NULLS LAST, id", Status.NATIVE,
         f"{BOUNDED}; NULL is the smallest value, as in Flink"),
    _row("ORDER BY of a stream", "SELECT auction, price FROM bids ORDER BY ts", Status.REFUSE,
         "ORDER BY of a stream is not supported"),
    _row("LIMIT", "SELECT id FROM people LIMIT 5", Status.NATIVE,
         "of a stream the first rows that come, and none after them"),
    _row("LIMIT ALL", "SELECT id FROM people LIMIT ALL", Status.NATIVE),
    _row("OFFSET", "SELECT id FROM people ORDER BY id LIMIT 5 OFFSET 2", Status.NATIVE, BOUNDED),
    _row("FETCH", "SELECT id FROM people ORDER BY id OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY", Status.NATIVE, BOUNDED),
    _row("UNION ALL", "SELECT auction FROM bids UNION ALL SELECT id FROM auctions", Status.NATIVE),
    _row("UNION", "SELECT id FROM people UNION SELECT 1", Status.OWN, INCREMENTAL),
    _row("INTERSECT", "SELECT id FROM people INTERSECT SELECT 1", Status.OWN, INCREMENTAL),
    _row("INTERSECT ALL", "SELECT id FROM people INTERSECT ALL SELECT 1", Status.OWN, INCREMENTAL),
    _row("EXCEPT", "SELECT id FROM people EXCEPT SELECT 1", Status.OWN, INCREMENTAL),
    _row("EXCEPT ALL", "SELECT id FROM people EXCEPT ALL SELECT 1", Status.OWN, INCREMENTAL),
    _row("IN (list)", "SELECT auction FROM bids WHERE channel IN ('a', 'b')", Status.NATIVE),
    _row("IN (query)", "SELECT name FROM people WHERE id IN (SELECT 1)", Status.OWN, INCREMENTAL),
    _row("EXISTS", "SELECT name FROM people AS p WHERE EXISTS (SELECT 1 FROM people AS q WHERE q.id = p.id)",
         Status.OWN, INCREMENTAL),
    _row("QUALIFY",
         "SELECT id, name FROM people QUALIFY ROW_NUMBER() OVER (PARTITION BY name ORDER BY id) = 1",
         Status.NATIVE, BOUNDED),
)  # fmt: skip

GROUPS: tuple[Row, ...] = (
    _row("GROUP BY", "SELECT auction, COUNT(*) AS bids, MAX(price) AS best FROM bids GROUP BY auction",
         Status.OWN, UPDATING),
    _row("aggregate without GROUP BY", "SELECT COUNT(*) AS n FROM people", Status.OWN, UPDATING),
    _row("HAVING", "SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction HAVING COUNT(*) > 2",
         Status.OWN, UPDATING),
    _row("FILTER", "SELECT auction, COUNT(*) FILTER (WHERE price > 9) AS n FROM bids GROUP BY auction",
         Status.OWN, UPDATING),
    _row("DISTINCT aggregate of a window", "SELECT window_start, COUNT(DISTINCT bidder) AS bidders FROM TABLE(TUMBLE("
         "TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end", Status.OWN,
         "keeps the set of values until the watermark closes the window"),
    _row("DISTINCT aggregate", "SELECT COUNT(DISTINCT name) AS names FROM people", Status.OWN, UPDATING),
    _row("GROUPING SETS",
         "SELECT auction, channel, GROUPING_ID(auction, channel) AS g, COUNT(*) AS n FROM bids "
         "GROUP BY GROUPING SETS ((auction), (channel), ())", Status.OWN,
         f"{UPDATING}; {SETS}"),
    _row("ROLLUP", "SELECT auction, channel, COUNT(*) AS n FROM bids GROUP BY ROLLUP (auction, channel)",
         Status.OWN, UPDATING),
    _row("CUBE", "SELECT auction, channel, COUNT(DISTINCT channel) AS n FROM bids GROUP BY auction, CUBE (channel)",
         Status.OWN, UPDATING),
    _row("GROUPING, GROUPING_ID, GROUP_ID",
         "SELECT auction, GROUPING(auction) AS g, GROUPING_ID(channel, auction) AS i, GROUP_ID() AS twice, MIN(price) "
         "AS least FROM bids GROUP BY GROUPING SETS ((auction), (auction, channel), (auction)) "
         "HAVING GROUPING(channel) = 1", Status.OWN, UPDATING),
    _row("CUBE of many columns",
         "SELECT COUNT(*) AS n FROM bids GROUP BY CUBE (auction, bidder, price, channel, ts, bidder + 1, bidder + 2, "
         "bidder + 3, bidder + 4, bidder + 5, bidder + 6, bidder + 7, bidder + 8)", Status.REFUSE,
         "this GROUP BY has 8192 sets, and 4096 are supported"),
    _row("OVER", "SELECT id, SUM(id) OVER (PARTITION BY name ORDER BY since ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) "
         "AS s FROM people", Status.NATIVE, BOUNDED),
    _row("OVER on a stream, RANGE of an interval",
         "SELECT auction, SUM(price) OVER (PARTITION BY auction ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING "
         "AND CURRENT ROW) AS s FROM bids", Status.OWN, f"{PASSED}; rows of the interval are kept"),
    _row("OVER on a stream, ROWS",
         "SELECT auction, COUNT(*) OVER w AS n, AVG(price) OVER w AS mean FROM bids WINDOW w AS (PARTITION BY auction "
         "ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)", Status.OWN,
         f"{PASSED}; the last rows are kept; DISTINCT for COUNT, SUM, MIN and MAX, FILTER for all aggregates"),
    _row("OVER on a stream, UNBOUNDED",
         "SELECT auction, SUM(price) OVER w AS s, MAX(price) OVER w AS best FROM bids WINDOW w AS (PARTITION BY "
         "auction ORDER BY ts)", Status.OWN,
         f"{PASSED}; for COUNT, SUM, MIN, MAX, FIRST_VALUE, LAST_VALUE, ROW_NUMBER, and AVG but of DECIMAL totals are "
         "kept, for others all rows, which EXPLAIN says; table.exec.state.ttl forgets keys"),
    _row("OVER on a stream by PROCTIME()",
         "SELECT auction, COUNT(*) OVER (PARTITION BY auction ORDER BY pt ROWS 9 PRECEDING) AS n FROM bids", Status.OWN,
         "rows are emitted as they arrive; those of a micro-batch arrive at one time"),
    _row("ROW_NUMBER without a bound",
         "SELECT auction, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts) AS n FROM bids", Status.OWN,
         "on a stream by a time attribute, ascending"),
    _row("LAG", "SELECT auction, LAG(price, 1) OVER (PARTITION BY auction ORDER BY ts) AS last FROM bids", Status.OWN,
         "on a stream by a time attribute; of rows of one time the one that came before counts, where Flink takes that "
         "before the last of them"),
    _row("window over OVER",
         "SELECT window_start, MAX(s) AS most FROM TABLE(TUMBLE((SELECT ts, SUM(price) OVER (PARTITION BY auction "
         "ORDER BY ts) AS s FROM bids), DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
         Status.OWN, f"{CLOSED}; TUMBLE, HOP and CUMULATE, over temporal joins too"),
    _row("window over changes",
         "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE reserved, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
         "GROUP BY window_start, window_end",
         Status.OWN, f"{CLOSED}; of rows that are updated or deleted, by a rowtime of theirs, those count that are "
         "left of the window then; HOP and CUMULATE too"),
    _row("LEAD on a stream", "SELECT auction, LEAD(price) OVER (PARTITION BY auction ORDER BY ts) AS next FROM bids",
         Status.REFUSE, "LEAD Function is not supported in stream mode"),
    _row("RANK on a stream without a bound", "SELECT auction, RANK() OVER (PARTITION BY auction ORDER BY ts) AS n FROM "
         "bids", Status.REFUSE, "OVER a stream without a bound is not supported"),
    _row("OVER on a stream, not by time", "SELECT auction, SUM(price) OVER (ORDER BY bidder) AS s FROM bids",
         Status.REFUSE, "must be defined on a time attribute"),
    _row("OVER on a stream, FOLLOWING",
         "SELECT SUM(price) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM bids", Status.REFUSE,
         "end at the CURRENT ROW"),
    _row("OVER on a stream, two windows",
         "SELECT SUM(price) OVER (ORDER BY ts) AS s, SUM(price) OVER (PARTITION BY auction ORDER BY ts) AS t FROM bids",
         Status.REFUSE, "must be computed on the same window"),
    _row("WINDOW", "SELECT id, COUNT(*) OVER w AS n FROM people WINDOW w AS (PARTITION BY name ORDER BY id)",
         Status.NATIVE, BOUNDED),
    _row("Top-N",
         "SELECT auction, price, rn FROM (SELECT auction, price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY "
         "price DESC) AS rn FROM bids) WHERE rn <= 3", Status.OWN, FIRST_COMES),
    _row("deduplication, first row",
         "SELECT auction, price FROM (SELECT auction, price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts) AS "
         "rn FROM bids) WHERE rn = 1", Status.OWN, FIRST_COMES),
    _row("deduplication, first row that comes",
         "SELECT auction, price FROM (SELECT auction, price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY pt) AS "
         "rn FROM bids) WHERE rn = 1", Status.OWN, UPDATING),
    _row("deduplication, last row",
         "SELECT auction, price FROM (SELECT auction, price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts DESC) "
         "AS rn FROM bids) WHERE rn = 1", Status.OWN, LAST_STAYS),
    _row("aggregate of an aggregate",
         "SELECT n, COUNT(*) AS auctions FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction) GROUP BY n",
         Status.OWN, MAINTAINED),
)  # fmt: skip

AS_FUNCTION = "as a windowing table function"
GROUP_WINDOWS: tuple[Row, ...] = (
    _row("group window TUMBLE",
         "SELECT auction, TUMBLE_START(ts, INTERVAL '1' HOUR) AS s, TUMBLE_END(ts, INTERVAL '1' HOUR) AS e, COUNT(*) "
         "AS n FROM bids GROUP BY auction, TUMBLE(ts, INTERVAL '1' HOUR)", Status.TRANSLATE, AS_FUNCTION),
    _row("group window HOP",
         "SELECT HOP_START(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE) AS s, COUNT(*) AS n FROM bids "
         "GROUP BY HOP(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)", Status.TRANSLATE, AS_FUNCTION),
    _row("group window SESSION",
         "SELECT UPPER(channel) AS c, SESSION_END(ts, INTERVAL '1' MINUTE) AS e, COUNT(*) AS n FROM bids "
         "GROUP BY UPPER(channel), SESSION(ts, INTERVAL '1' MINUTE)", Status.TRANSLATE, AS_FUNCTION),
    _row("group window SESSION of processing time",
         "SELECT COUNT(*) AS n FROM bids GROUP BY SESSION(pt, INTERVAL '1' MINUTE)", Status.REFUSE,
         "SESSION windows of processing time are not supported, and 'pt' is PROCTIME()"),
    _row("group window of group windows",
         "SELECT TUMBLE_START(t, INTERVAL '1' HOUR) AS s, SUM(n) AS total FROM (SELECT TUMBLE_ROWTIME(ts, INTERVAL "
         "'10' MINUTE) AS t, COUNT(*) AS n FROM bids GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE)) "
         "GROUP BY TUMBLE(t, INTERVAL '1' HOUR)", Status.TRANSLATE, AS_FUNCTION),
    _row("group window with TUMBLE_PROCTIME",
         "SELECT TUMBLE_PROCTIME(ts, INTERVAL '1' HOUR) AS p, COUNT(*) AS n FROM bids "
         "GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)", Status.TRANSLATE, "the time of the micro-batch: PROCTIME()"),
    _row("group window over a join",
         "SELECT p.name, TUMBLE_END(b.ts, INTERVAL '1' HOUR) AS e, SUM(b.price) AS total FROM bids AS b "
         "JOIN people AS p ON b.bidder = p.id GROUP BY p.name, TUMBLE(b.ts, INTERVAL '1' HOUR)", Status.TRANSLATE,
         "the join becomes a query in FROM, which the function reads"),
    _row("group window with an alignment",
         "SELECT COUNT(*) AS n FROM bids GROUP BY TUMBLE(ts, INTERVAL '1' HOUR, TIME '00:15:00')", Status.REFUSE,
         "TUMBLE with an alignment is not supported in GROUP BY"),
    _row("group window beside grouping sets",
         "SELECT auction, COUNT(*) AS n FROM bids GROUP BY ROLLUP (auction), TUMBLE(ts, INTERVAL '1' HOUR)",
         Status.TRANSLATE, AS_FUNCTION),
    _row("group window SESSION beside grouping sets",
         "SELECT COUNT(*) AS n FROM bids GROUP BY ROLLUP (auction), SESSION(ts, INTERVAL '1' HOUR)", Status.REFUSE,
         "SESSION beside grouping sets is not supported"),
)  # fmt: skip

WINDOWS: tuple[Row, ...] = (
    _row("TUMBLE", "SELECT window_start, window_end, SUM(price) AS total FROM TABLE(TUMBLE(TABLE bids, "
         "DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end", Status.TRANSLATE,
         f"{CLOSED}; {LOCAL}"),
    _row("TUMBLE with an offset",
         "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR, "
         "INTERVAL '5' MINUTE)) GROUP BY window_start, window_end", Status.TRANSLATE, CLOSED),
    _row("TUMBLE by names",
         "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), "
         "SIZE => INTERVAL '10' MINUTES)) GROUP BY window_start, window_end", Status.TRANSLATE, CLOSED),
    _row("TUMBLE without TABLE(...)",
         "SELECT window_end, COUNT(*) AS n FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE) "
         "GROUP BY window_start, window_end", Status.TRANSLATE, CLOSED),
    _row("HOP", "SELECT window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTE, "
         "INTERVAL '10' MINUTE)) GROUP BY window_start, window_end", Status.TRANSLATE, CLOSED),
    _row("HOP with an offset",
         "SELECT window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTE, "
         "INTERVAL '10' MINUTE, INTERVAL '2' MINUTE)) GROUP BY window_start, window_end", Status.TRANSLATE, CLOSED),
    _row("HOP by names",
         "SELECT window_end, COUNT(*) AS n FROM TABLE(HOP(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), "
         "SLIDE => INTERVAL '5' MINUTES, SIZE => INTERVAL '10' MINUTES)) GROUP BY window_start, window_end",
         Status.TRANSLATE, CLOSED),
    _row("CUMULATE",
         "SELECT window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' MINUTE, "
         "INTERVAL '10' MINUTE)) GROUP BY window_start, window_end", Status.OWN, CLOSED),
    _row("CUMULATE with an offset",
         "SELECT window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' MINUTE, "
         "INTERVAL '10' MINUTE, INTERVAL '1' MINUTE)) GROUP BY window_start, window_end", Status.OWN, CLOSED),
    _row("CUMULATE by names",
         "SELECT window_end, COUNT(*) AS n FROM TABLE(CUMULATE(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), "
         "STEP => INTERVAL '2' MINUTES, SIZE => INTERVAL '10' MINUTES)) GROUP BY window_start, window_end",
         Status.OWN, CLOSED),
    _row("SESSION",
         "SELECT auction, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE bids PARTITION BY auction, "
         "DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY auction, window_start, window_end", Status.TRANSLATE, CLOSED),
    _row("SESSION by names",
         "SELECT window_end, COUNT(*) AS n FROM TABLE(SESSION(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), "
         "GAP => INTERVAL '5' MINUTES)) GROUP BY window_start, window_end", Status.TRANSLATE, CLOSED),
    _row("GROUPING SETS of a window",
         "SELECT window_start, auction, GROUPING(auction) AS g, SUM(price) AS total FROM TABLE(TUMBLE(TABLE bids, "
         "DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, GROUPING SETS ((auction), ())",
         Status.OWN, f"{CLOSED}; ROLLUP and CUBE, too; for TUMBLE, HOP and CUMULATE"),
    _row("GROUPING SETS of SESSION windows",
         "SELECT auction, COUNT(*) AS n FROM TABLE(SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(ts), "
         "INTERVAL '5' MINUTE)) GROUP BY window_start, window_end, ROLLUP (auction)", Status.REFUSE,
         "SESSION beside grouping sets is not supported"),
    _row("window over a window",
         "SELECT w.window_start, SUM(n) AS total FROM TABLE(TUMBLE((SELECT window_time, COUNT(*) AS n FROM "
         "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, "
         "window_time), DESCRIPTOR(window_time), INTERVAL '1' HOUR)) AS w GROUP BY w.window_start, w.window_end",
         Status.TRANSLATE, CLOSED),
    _row("window join",
         "SELECT l.auction, r.seller FROM (SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), "
         "INTERVAL '10' MINUTE))) AS l JOIN (SELECT * FROM TABLE(TUMBLE(TABLE "
         "auctions, DESCRIPTOR(ts), INTERVAL '10' MINUTE))) AS r ON l.auction = r.id AND "
         "l.window_start = r.window_start AND l.window_end = r.window_end", Status.TRANSLATE),
    _row("window join of aggregated windows, their bounds under other names",
         "SELECT c.auction, c.num FROM (SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS "
         "endtime FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)) GROUP BY "
         "auction, window_start, window_end) AS c JOIN (SELECT MAX(num) AS maxn, starttime, endtime FROM (SELECT "
         "COUNT(*) AS num, window_start AS starttime, window_end AS endtime FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), "
         "INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)) GROUP BY auction, window_start, window_end) GROUP BY starttime, "
         "endtime) AS m ON c.starttime = m.starttime AND c.endtime = m.endtime AND c.num >= m.maxn",
         Status.TRANSLATE, CLOSED),
    _row("window semi join",
         "SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) AS l WHERE EXISTS (SELECT 1 "
         "FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) AS r WHERE l.auction = r.id AND "
         "l.window_start = r.window_start AND l.window_end = r.window_end)", Status.OWN,
         "a row comes with its first match; rows of both sides are kept, without limit or for table.exec.state.ttl, "
         "where Flink keeps those of open windows"),
    _row("window anti join",
         "SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) AS l WHERE NOT EXISTS (SELECT "
         "1 FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) AS r WHERE l.auction = r.id AND "
         "l.window_start = r.window_start AND l.window_end = r.window_end)", Status.OWN, IN_WINDOWS),
    _row("aggregation of SESSION windows, their bounds under other names",
         "SELECT s, MAX(n) AS m FROM (SELECT auction, COUNT(*) AS n, window_start AS s, window_end AS e FROM "
         "TABLE(SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY auction, "
         "window_start, window_end) GROUP BY s, e", Status.OWN, UPDATING),
    _row("window Top-N",
         "SELECT auction, price, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
         "ORDER BY price DESC) AS rn FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE))) "
         "WHERE rn <= 3", Status.OWN, IN_WINDOWS),
    _row("window deduplication",
         "SELECT auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, auction "
         "ORDER BY ts DESC) AS rn FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE))) "
         "WHERE rn = 1", Status.OWN, IN_WINDOWS),
    *GROUP_WINDOWS,
)  # fmt: skip

JOINS: tuple[Row, ...] = (
    _row("INNER JOIN", "SELECT b.auction, a.seller FROM bids AS b JOIN auctions AS a ON b.auction = a.id",
         Status.NATIVE, "of two streams: rows are kept permanently, unless the times are bounded (interval join)"),
    _row("INNER JOIN without an equality", "SELECT b.auction FROM bids AS b JOIN auctions AS a ON b.auction > a.id",
         Status.REFUSE, "a join of streams without an equality between their columns is not supported"),
    _row("LEFT JOIN", "SELECT p.name, q.since FROM people AS p LEFT OUTER JOIN people AS q ON p.id = q.id",
         Status.OWN, INCREMENTAL),
    _row("RIGHT JOIN", "SELECT p.name, q.since FROM people AS p RIGHT JOIN people AS q ON p.id = q.id",
         Status.OWN, INCREMENTAL),
    _row("FULL JOIN", "SELECT p.name, q.since FROM people AS p FULL JOIN people AS q ON p.id = q.id",
         Status.OWN, INCREMENTAL),
    _row("CROSS JOIN", "SELECT p.name, v.x FROM people AS p CROSS JOIN (VALUES (1), (2)) AS v (x)", Status.NATIVE,
         BOUNDED),
    _row("NATURAL JOIN", "SELECT id FROM people NATURAL JOIN (SELECT 1 AS id) AS one", Status.NATIVE, BOUNDED),
    _row("JOIN ... USING", "SELECT p.name FROM people AS p JOIN people AS q USING (id)", Status.NATIVE, BOUNDED),
    _row("interval join",
         "SELECT b.auction, a.seller FROM bids AS b JOIN auctions AS a ON b.auction = a.id AND b.ts BETWEEN a.ts AND "
         "a.ts + INTERVAL '1' HOUR", Status.NATIVE, "rows are kept as long as the watermark says that they "
         "may match; outer ones too, over TIMESTAMP and over TIMESTAMP_LTZ: a row without a match comes when the "
         "watermark has passed the last one that may match"),
    _row("stream with a table at rest",
         "SELECT b.auction, p.name FROM bids AS b JOIN people AS p ON b.bidder = p.id", Status.NATIVE),
    _row("temporal join",
         "SELECT b.auction, r.reserve FROM bids AS b LEFT JOIN reserved FOR SYSTEM_TIME AS OF b.ts AS r "
         "ON b.auction = r.auction", Status.OWN, "with a stream that has a PRIMARY KEY and a WATERMARK (upsert-kafka, "
         "the formats of changes), or a view of the last rows of a stream; the left side has inserts; state is kept "
         "beside the checkpoint, rows wait for the watermark of both sides, and late ones are dropped and counted"),
    _row("temporal join with a table that has no WATERMARK",
         "SELECT b.auction, t.total FROM bids AS b JOIN totals FOR SYSTEM_TIME AS OF b.ts AS t "
         "ON b.auction = t.auction", Status.REFUSE, "requires a row time attribute in the versioned table"),
    _row("lookup join",
         "SELECT b.auction, p.name FROM bids AS b JOIN people FOR SYSTEM_TIME AS OF b.pt AS p "
         "ON b.bidder = p.id", Status.OWN, "of tables that Spark reads by itself, INNER and LEFT: jdbc is asked for "
         "the rows of each batch's keys, with lookup.cache = PARTIAL for those that are not cached; delta is read "
         "again in each batch"),
    _row("UNNEST an array", "SELECT b.auction, t.tag FROM bids AS b CROSS JOIN UNNEST(b.tags) AS t (tag)",
         Status.TRANSLATE),
    _row("UNNEST an array, without names of columns",
         "SELECT b.auction, tag FROM bids AS b CROSS JOIN UNNEST(b.tags) AS tag", Status.TRANSLATE,
         "the element has the name of the alias"),
    _row("LEFT JOIN UNNEST",
         "SELECT b.auction, t.tag FROM bids AS b LEFT JOIN UNNEST(b.tags) AS t (tag) ON TRUE", Status.TRANSLATE,
         "a row whose array is empty or NULL stays, with NULL"),
    _row("UNNEST a map", "SELECT b.auction, m.k, m.v FROM bids AS b CROSS JOIN UNNEST(b.attributes) AS m (k, v)",
         Status.TRANSLATE),
    _row("UNNEST WITH ORDINALITY",
         "SELECT b.auction, t.tag, t.n FROM bids AS b CROSS JOIN UNNEST(b.tags) WITH ORDINALITY AS t (tag, n)",
         Status.TRANSLATE, "an INT from 1; also of maps, multisets and arrays of rows, and with LEFT JOIN"),
    _row("LATERAL (query)",
         "SELECT p.name, l.x FROM people AS p, LATERAL (SELECT p.id + 1 AS x) AS l", Status.NATIVE, BOUNDED),
    _row("LATERAL TABLE(function)", "SELECT p.name, w.word FROM people AS p, LATERAL TABLE(words(p.name)) AS w (word)",
         Status.TRANSLATE, "a function in Python that is decorated with pyspark's @udtf, on streams too; without names "
         "behind AS its columns are those that it declares", WORDS),
    _row("LEFT JOIN LATERAL TABLE(function)",
         "SELECT p.name, w.word FROM people AS p LEFT JOIN LATERAL TABLE(words(p.name)) AS w (word) ON TRUE",
         Status.OWN, "ON TRUE, as in Flink; a row for which the function gives nothing stays, with NULL; not where "
         "the function has analyze() or works on Arrow arrays", WORDS),
    _row("JOIN LATERAL TABLE(function) ON a condition",
         "SELECT p.name, w.word FROM people AS p JOIN LATERAL TABLE(words(p.name)) AS w (word) ON w.word <> p.name",
         Status.REFUSE, "write ON TRUE, and the condition in WHERE", WORDS),
    _row("LATERAL TABLE(function in Java)", "SELECT s.x FROM people AS p, LATERAL TABLE(score(p.name)) AS s (x)",
         Status.REFUSE, "it is written in Java", "CREATE FUNCTION score AS 'com.example.Score' LANGUAGE JAVA;"),
    _row("LATERAL TABLE(built-in function)", "SELECT s.x FROM people AS p, LATERAL TABLE(UPPER(p.name)) AS s (x)",
         Status.REFUSE, "UNNEST an array"),
    _row("LATERAL SNAPSHOT",
         "SELECT b.auction FROM bids AS b JOIN LATERAL SNAPSHOT(input => TABLE people, on_time => DESCRIPTOR(since)) "
         "AS s ON b.bidder = s.id", Status.REFUSE, "LATERAL SNAPSHOT is not supported"),
    _row("table function", "SELECT word FROM TABLE(words('to be or')) AS w (word)", Status.TRANSLATE,
         "a function in Python that is decorated with pyspark's @udtf; its arguments are values, by their position",
         WORDS),
    _row("process table function",
         "SELECT * FROM f(input => TABLE bids PARTITION BY auction ORDER BY ts, on_time => DESCRIPTOR(ts), uid => 'a')",
         Status.REFUSE, "the table function F is not supported"),
    _row("TO_CHANGELOG", "SELECT * FROM TO_CHANGELOG(input => TABLE totals, op => DESCRIPTOR(op))", Status.REFUSE,
         "write into one"),
    _row("ML_PREDICT", "SELECT * FROM ML_PREDICT(TABLE bids, MODEL m, DESCRIPTOR(price))", Status.REFUSE,
         "Penstock runs no models"),
    _row("VECTOR_SEARCH",
         "SELECT * FROM people AS p, LATERAL TABLE(VECTOR_SEARCH(TABLE bids, DESCRIPTOR(price), p.id, 10))",
         Status.REFUSE, "Penstock runs no models"),
    _row("MATCH_RECOGNIZE",
         "SELECT m.* FROM bids MATCH_RECOGNIZE (PARTITION BY auction ORDER BY ts MEASURES LAST(B.price) AS p "
         "ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B{2,}) WITHIN INTERVAL '1' HOUR "
         "DEFINE B AS B.price > A.price) AS m", Status.REFUSE, "MATCH_RECOGNIZE is not supported"),
)  # fmt: skip

QUERIES: tuple[Row, ...] = (*BLOCKS, *GROUPS, *WINDOWS, *JOINS)
"""Every form of a query in Flink 2.2's pages of queries."""

HINTS: tuple[Row, ...] = (
    _hint("OPTIONS of a table", "SELECT auction FROM bids /*+ OPTIONS('scan.parallelism' = '2') */",
          Status.OWN, "over the options of the definition; of several hints the first that has a key counts"),
    _hint("OPTIONS in a windowing function",
          "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE bids /*+ OPTIONS('scan.parallelism' = "
          "'2') */, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end", Status.OWN),
    _hint("BROADCAST", "SELECT /*+ BROADCAST(p) */ b.auction, p.name FROM bids AS b JOIN people AS p "
          "ON b.bidder = p.id", Status.NATIVE),
    _hint("SHUFFLE_HASH", "SELECT /*+ SHUFFLE_HASH(p) */ p.name FROM people AS p JOIN people AS q ON p.id = q.id",
          Status.NATIVE),
    _hint("SHUFFLE_MERGE", "SELECT /*+ SHUFFLE_MERGE(p) */ p.name FROM people AS p JOIN people AS q ON p.id = q.id",
          Status.TRANSLATE, "MERGE in Spark"),
    _hint("NEST_LOOP", "SELECT /*+ NEST_LOOP(p) */ p.name FROM people AS p JOIN people AS q ON p.id = q.id",
          Status.TRANSLATE, "SHUFFLE_REPLICATE_NL in Spark"),
    _hint("STATE_TTL", "SELECT /*+ STATE_TTL('b' = '1d') */ auction, COUNT(*) AS n FROM bids AS b GROUP BY auction",
          Status.OWN, "over table.exec.state.ttl: of an aggregation, or each side of a regular join; '0s' keeps it "
          "permanently"),
    _hint("STATE_TTL of a window",
          "SELECT /*+ STATE_TTL('w' = '1d') */ window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), "
          "INTERVAL '10' MINUTE)) AS w GROUP BY window_start, window_end", Status.REFUSE,
          "none of these keeps rows of 'w' here"),
    _hint("LOOKUP",
          "SELECT /*+ LOOKUP('table' = 'p', 'async' = 'true', 'output-mode' = 'allow_unordered', 'capacity' = '100', "
          "'timeout' = '180s', 'shuffle' = 'true') */ b.auction, p.name FROM bids AS b JOIN people FOR SYSTEM_TIME AS "
          "OF b.pt AS p ON b.bidder = p.id", Status.OWN,
          "the options of retrying ask again for keys that no row of a jdbc table has; the others are checked and mean "
          "nothing: a task asks for the keys of 10,000 rows at once"),
    _hint("LOOKUP with retrying, in a table that each batch reads whole",
          "SELECT /*+ LOOKUP('table' = 'p', 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', "
          "'fixed-delay' = '10s', 'max-attempts' = '3') */ b.auction, p.name FROM bids AS b JOIN people FOR "
          "SYSTEM_TIME AS OF b.pt AS p ON b.bidder = p.id", Status.REFUSE,
          "asks again for keys without rows, and default_catalog.default_database.people is not asked for keys"),
    _hint("MULTI_JOIN", "SELECT /*+ MULTI_JOIN(p, q) */ p.id FROM people AS p JOIN people AS q ON p.id = q.id",
          Status.TRANSLATE, "its names are checked; each join is one of its own"),
)  # fmt: skip
"""Every hint of Flink 2.2."""
