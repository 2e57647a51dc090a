-- Tables and columns that are not there, with the nearest that are.
SELECT * FROM bidz;
SELECT prise, b.extr FROM bids AS b;
SELECT x.price, y.* FROM bids;
SELECT s.price FROM (SELECT auction FROM bids) AS s;
WITH q AS (SELECT price AS p FROM bids) SELECT q.price, pp FROM q;
SELECT auction FROM bids UNION ALL SELECT idd FROM auctions;
SELECT windw_start FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE));
SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(tz), INTERVAL '1' MINUTE));
SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(price), INTERVAL '1' MINUTE));
SELECT ts FROM bids JOIN auctions ON auction = id;
INSERT INTO sink (idd, c, o) SELECT 1, 2, 3;
INSERT INTO sink SELECT auction FROM bids;
INSERT INTO halves SELECT 1, 2;
USE nowhere;
DROP TABLE nothing;
SHOW CREATE VIEW bids;
-- ----- expected
-- error[PEN-2001]: there is no table or view default_catalog.default_database.bidz
--  --> case.sql:2:15
--   |
-- 2 | SELECT * FROM bidz;
--   |               ^^^^
--   = help: did you mean 'bids'?
--
-- error[PEN-2001]: there is no column 'prise'
--  --> case.sql:3:8
--   |
-- 3 | SELECT prise, b.extr FROM bids AS b;
--   |        ^^^^^
--   = help: did you mean 'price'?
--
-- error[PEN-2001]: 'b' has no column 'extr'
--  --> case.sql:3:17
--   |
-- 3 | SELECT prise, b.extr FROM bids AS b;
--   |                 ^^^^
--   = help: did you mean 'extra'?
--
-- error[PEN-2001]: there is no table 'y' here
--  --> case.sql:4:17
--   |
-- 4 | SELECT x.price, y.* FROM bids;
--   |                 ^
--   = help: there are: bids
--
-- error[PEN-2001]: 's' has no column 'price'
--  --> case.sql:5:10
--   |
-- 5 | SELECT s.price FROM (SELECT auction FROM bids) AS s;
--   |          ^^^^^
--   = help: there are: auction
--
-- error[PEN-2001]: 'q' has no column 'price'
--  --> case.sql:6:50
--   |
-- 6 | WITH q AS (SELECT price AS p FROM bids) SELECT q.price, pp FROM q;
--   |                                                  ^^^^^
--   = help: there are: p
--
-- error[PEN-2001]: there is no column 'pp'
--  --> case.sql:6:57
--   |
-- 6 | WITH q AS (SELECT price AS p FROM bids) SELECT q.price, pp FROM q;
--   |                                                         ^^
--   = help: did you mean 'p'?
--
-- error[PEN-2001]: there is no column 'idd'
--  --> case.sql:7:43
--   |
-- 7 | SELECT auction FROM bids UNION ALL SELECT idd FROM auctions;
--   |                                           ^^^
--   = help: did you mean 'id'?
--
-- error[PEN-2001]: there is no column 'windw_start'
--  --> case.sql:8:8
--   |
-- 8 | SELECT windw_start FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE));
--   |        ^^^^^^^^^^^
--   = help: did you mean 'window_start'?
--
-- error[PEN-2001]: there is no column 'tz'
--  --> case.sql:9:51
--   |
-- 9 | SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(tz), INTERVAL '1' MINUTE));
--   |                                                   ^^
--   = help: there are: auction, bidder, price, ts, l, extra, d, ok, m, r, arr, window_start, window_end, window_time
--
-- error[PEN-3001]: TUMBLE needs a time column, and 'price' is BIGINT
--   --> case.sql:10:21
--    |
-- 10 | SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(price), INTERVAL '1' MINUTE));
--    |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
--    = help: name the column of the table's WATERMARK in DESCRIPTOR(...)
--
-- error[PEN-3001]: the column 'ts' is in 'bids' and 'auctions'
--   --> case.sql:11:8
--    |
-- 11 | SELECT ts FROM bids JOIN auctions ON auction = id;
--    |        ^^
--    = help: write bids.ts or auctions.ts
--
-- error[PEN-2001]: there is no column 'idd'
--   --> case.sql:12:19
--    |
-- 12 | INSERT INTO sink (idd, c, o) SELECT 1, 2, 3;
--    |                   ^^^
--    = help: did you mean 'id'?
--
-- error[PEN-3001]: 'c' is computed: nothing can be written to it
--   --> case.sql:12:24
--    |
-- 12 | INSERT INTO sink (idd, c, o) SELECT 1, 2, 3;
--    |                        ^
--
-- error[PEN-3001]: 'o' is a virtual metadata column: nothing can be written to it
--   --> case.sql:12:27
--    |
-- 12 | INSERT INTO sink (idd, c, o) SELECT 1, 2, 3;
--    |                           ^
--
-- error[PEN-3001]: the query (auction) has 1 column, default_catalog.default_database.sink takes 3 (id, name, k)
--   --> case.sql:13:25
--    |
-- 13 | INSERT INTO sink SELECT auction FROM bids;
--    |                         ^^^^^^^^^^^^^^^^^
--    = help: name the columns that are filled: INSERT INTO t (a, b) SELECT ...
--
-- error[PEN-5001]: default_catalog.default_database.halves is a view; rows go into tables only
--   --> case.sql:14:13
--    |
-- 14 | INSERT INTO halves SELECT 1, 2;
--    |             ^^^^^^
--
-- error[PEN-2001]: there is no database 'nowhere'
--   --> case.sql:15:5
--    |
-- 15 | USE nowhere;
--    |     ^^^^^^^
--    = help: known are: default_database
--
-- error[PEN-2001]: there is no table or view default_catalog.default_database.nothing
--   --> case.sql:16:12
--    |
-- 16 | DROP TABLE nothing;
--    |            ^^^^^^^
--    = help: known are: auctions, bids, halves, sink
--
-- error[PEN-3001]: default_catalog.default_database.bids is a table
--   --> case.sql:17:18
--    |
-- 17 | SHOW CREATE VIEW bids;
--    |                  ^^^^
--    = help: SHOW CREATE TABLE bids
--
-- 20 errors; nothing was started
