-- What Flink has and Penstock has not is refused by name, and a way round is shown where there is one.
ALTER MODEL m RENAME TO n;
EXPLAIN ESTIMATED_COST SELECT 1;
EXECUTE PLAN 'p.json';
CREATE TEMPORARY SYSTEM FUNCTION f AS 'x' LANGUAGE SCALA;
SELECT COUNT(*) FROM bids GROUP BY TUMBLE(ts, INTERVAL '1' DAY, TIME '06:00:00');
SELECT * FROM bids, LATERAL TABLE(UPPER(extra)) AS u (x);
SELECT "price" FROM bids;
SHOW MODELS;
SELECT CURRENT_WATERMARK(ts) FROM bids;
CREATE TABLE t (r ROW<>, q ROW());
SELECT CAST(NULL AS ROW()) FROM bids;
-- ----- expected
-- error[PEN-5001]: ALTER MODEL is not supported
--  --> case.sql:2:1
--   |
-- 2 | ALTER MODEL m RENAME TO n;
--   | ^^^^^
--
-- error[PEN-5001]: EXPLAIN ESTIMATED_COST is not supported
--  --> case.sql:3:9
--   |
-- 3 | EXPLAIN ESTIMATED_COST SELECT 1;
--   |         ^^^^^^^^^^^^^^
--   = help: a stream has no cost that could be told before it runs; CHANGELOG_MODE and PLAN_ADVICE tell what it keeps
--
-- error[PEN-5001]: EXECUTE PLAN is not supported
--  --> case.sql:4:1
--   |
-- 4 | EXECUTE PLAN 'p.json';
--   | ^^^^^^^
--
-- error[PEN-5001]: functions in Scala are not supported
--  --> case.sql:5:52
--   |
-- 5 | CREATE TEMPORARY SYSTEM FUNCTION f AS 'x' LANGUAGE SCALA;
--   |                                                    ^^^^^
--   = help: LANGUAGE JAVA with a class that implements org.apache.spark.sql.api.java.UDF1 (UDF2, ...), or LANGUAGE PYTHON
--
-- error[PEN-5001]: TUMBLE with an alignment is not supported in GROUP BY
--  --> case.sql:6:65
--   |
-- 6 | SELECT COUNT(*) FROM bids GROUP BY TUMBLE(ts, INTERVAL '1' DAY, TIME '06:00:00');
--   |                                                                 ^^^^^^^^^^^^^^^
--   = help: write the windowing table function: FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), size)) GROUP BY window_start, window_end
--
-- error[PEN-5001]: the table function UPPER is not supported
--  --> case.sql:7:35
--   |
-- 7 | SELECT * FROM bids, LATERAL TABLE(UPPER(extra)) AS u (x);
--   |                                   ^^^^^^^^^^^
--   = help: UNNEST an array, or write a query in its place
--
-- error[PEN-1001]: unexpected "
--  --> case.sql:8:8
--   |
-- 8 | SELECT "price" FROM bids;
--   |        ^
--   = help: names are quoted with `backticks`, texts with 'single quotes'
--
-- error[PEN-5001]: SHOW MODELS is not supported
--  --> case.sql:9:1
--   |
-- 9 | SHOW MODELS;
--   | ^^^^^^^^^^^
--   = help: Penstock runs no models
--
-- error[PEN-5001]: CURRENT_WATERMARK is not supported
--   --> case.sql:10:8
--    |
-- 10 | SELECT CURRENT_WATERMARK(ts) FROM bids;
--    |        ^^^^^^^^^^^^^^^^^^^^
--    = help: late rows are dropped and counted by windows and joins themselves; information_schema.checkpoints and `penstock tail --watermarks` show the watermark; to leave out old rows, compare with the clock: ts > CURRENT_TIMESTAMP - INTERVAL '1' MINUTE
--
-- error[PEN-5001]: ROW without fields is not supported
--   --> case.sql:11:19
--    |
-- 11 | CREATE TABLE t (r ROW<>, q ROW());
--    |                   ^^^^^
--    = help: leave the column out, or name its fields: ROW<name TYPE, ...>
--
-- error[PEN-5001]: ROW without fields is not supported
--   --> case.sql:12:21
--    |
-- 12 | SELECT CAST(NULL AS ROW()) FROM bids;
--    |                     ^^^^^
--    = help: leave the column out, or name its fields: ROW<name TYPE, ...>
--
-- 11 errors; nothing was started
