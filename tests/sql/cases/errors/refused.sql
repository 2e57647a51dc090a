-- What Flink has and Penstock has not is refused by name, and a way round is shown where there is one.
ALTER TABLE bids ADD x INT;
EXPLAIN ESTIMATED_COST SELECT 1;
EXECUTE INSERT INTO sink SELECT 1;
CREATE TEMPORARY SYSTEM FUNCTION f AS 'x';
SELECT TUMBLE_START(ts, INTERVAL '1' DAY) FROM bids GROUP BY TUMBLE(ts, INTERVAL '1' DAY);
SELECT * FROM bids JOIN auctions FOR SYSTEM_TIME AS OF bids.ts AS a ON bids.auction = a.id;
SELECT * FROM bids, LATERAL TABLE(f(price)) AS u (x);
SELECT "price" FROM bids;
SHOW FUNCTIONS;
-- ----- expected
-- error: ALTER TABLE is not supported
--  --> case.sql:2:1
--   |
-- 2 | ALTER TABLE bids ADD x INT;
--   | ^^^^^
--   = help: drop the table and create it again: its data stays where it is
--
-- error: EXPLAIN ESTIMATED_COST is not supported
--  --> case.sql:3:9
--   |
-- 3 | EXPLAIN ESTIMATED_COST SELECT 1;
--   |         ^^^^^^^^^^^^^^
--   = help: a stream has no cost that could be told before it runs
--
-- error: EXECUTE INSERT is not supported
--  --> case.sql:4:1
--   |
-- 4 | EXECUTE INSERT INTO sink SELECT 1;
--   | ^^^^^^^
--   = help: write INSERT INTO
--
-- error: CREATE FUNCTION is not supported
--  --> case.sql:5:1
--   |
-- 5 | CREATE TEMPORARY SYSTEM FUNCTION f AS 'x';
--   | ^^^^^^
--   = help: register it on the Spark session: spark.udf.register(...)
--
-- error: TUMBLE_START is not supported
--  --> case.sql:6:8
--   |
-- 6 | SELECT TUMBLE_START(ts, INTERVAL '1' DAY) FROM bids GROUP BY TUMBLE(ts, INTERVAL '1' DAY);
--   |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
--   = help: write a windowing table function: FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), size)) GROUP BY window_start, window_end
--
-- error: a temporal join is not supported
--  --> case.sql:7:56
--   |
-- 7 | SELECT * FROM bids JOIN auctions FOR SYSTEM_TIME AS OF bids.ts AS a ON bids.auction = a.id;
--   |                                                        ^^^^^^^
--   = help: a later release will run it
--
-- error: LATERAL TABLE(...) is not supported
--  --> case.sql:8:29
--   |
-- 8 | SELECT * FROM bids, LATERAL TABLE(f(price)) AS u (x);
--   |                             ^^^^^^^^^^^^^^^^^^^^^^^
--
-- error: unexpected "
--  --> case.sql:9:8
--   |
-- 9 | SELECT "price" FROM bids;
--   |        ^
--   = help: names are quoted with `backticks`, texts with 'single quotes'
--
-- error: SHOW FUNCTIONS is not supported
--   --> case.sql:10:1
--    |
-- 10 | SHOW FUNCTIONS;
--    | ^^^^
--
-- 9 errors; nothing was started
