-- What contradicts itself in a definition, each at its place.
CREATE TABLE a (
  x INT,
  x STRING,
  y DECIMAL(50, 2),
  PRIMARY KEY (z) NOT ENFORCED
) PARTITIONED BY (w) WITH ('k' = '1', 'k' = '2');
CREATE TABLE b (
  id INT,
  raw STRING,
  rt AS TO_TIMESTAMP(UPPER(raw)),
  WATERMARK FOR rt AS rt - INTERVAL '5' SECOND
);
CREATE TABLE c (id INT, one AS idd, two AS one, three AS COUNT(id), four AS PROCTIME());
CREATE TABLE d (id INT, WATERMARK FOR id AS id);
CREATE TABLE e (id INT, ts TIMESTAMP(3), WATERMARK FOR tz AS ts);
CREATE VIEW f (a, b) AS SELECT price FROM bids;
CREATE VIEW g AS SELECT price, bidder AS price FROM bids;
CREATE TABLE bids (id INT);
-- ----- expected
-- error[PEN-3001]: the column 'x' is declared twice
--  --> case.sql:4:3
--   |
-- 4 |   x STRING,
--   |   ^
--
-- error[PEN-3001]: DECIMAL(50, 2) is out of range
--  --> case.sql:5:5
--   |
-- 5 |   y DECIMAL(50, 2),
--   |     ^^^^^^^^^^^^^^
--   = help: the precision is 1 to 38, the scale 0 to the precision
--
-- error[PEN-2001]: PRIMARY KEY: there is no column 'z'
--  --> case.sql:6:16
--   |
-- 6 |   PRIMARY KEY (z) NOT ENFORCED
--   |                ^
--   = help: columns are: x, y
--
-- error[PEN-2001]: PARTITIONED BY: there is no column 'w'
--  --> case.sql:7:19
--   |
-- 7 | ) PARTITIONED BY (w) WITH ('k' = '1', 'k' = '2');
--   |                   ^
--   = help: columns are: x, y
--
-- error[PEN-3001]: the option 'k' is given twice
--  --> case.sql:7:39
--   |
-- 7 | ) PARTITIONED BY (w) WITH ('k' = '1', 'k' = '2');
--   |                                       ^^^
--
-- error[PEN-5001]: UPPER cannot be evaluated while a batch is planned, so no watermark can be made of it
--   --> case.sql:11:22
--    |
-- 11 |   rt AS TO_TIMESTAMP(UPPER(raw)),
--    |                      ^^^^^^^^^
--    = help: an expression with a watermark may use TO_TIMESTAMP, TO_TIMESTAMP_LTZ, FROM_UNIXTIME, CAST, COALESCE, NULLIF, CASE, IF, LEAST, GREATEST, REPLACE, SUBSTRING, CONCAT, CURRENT_TIMESTAMP, LOCALTIMESTAMP, arithmetic and intervals
--
-- error[PEN-2001]: computed column 'one': there is no column 'idd'
--   --> case.sql:14:32
--    |
-- 14 | CREATE TABLE c (id INT, one AS idd, two AS one, three AS COUNT(id), four AS PROCTIME());
--    |                                ^^^
--    = help: did you mean 'id'?
--
-- error[PEN-3001]: computed column 'two' uses 'one', which is computed itself
--   --> case.sql:14:44
--    |
-- 14 | CREATE TABLE c (id INT, one AS idd, two AS one, three AS COUNT(id), four AS PROCTIME());
--    |                                            ^^^
--    = help: write its expression out, as in Flink
--
-- error[PEN-3001]: computed column 'three': only values of the row itself can be used here
--   --> case.sql:14:58
--    |
-- 14 | CREATE TABLE c (id INT, one AS idd, two AS one, three AS COUNT(id), four AS PROCTIME());
--    |                                                          ^^^^^^^^^
--
-- error[PEN-3001]: WATERMARK column id has type INT
--   --> case.sql:15:39
--    |
-- 15 | CREATE TABLE d (id INT, WATERMARK FOR id AS id);
--    |                                       ^^
--    = help: event time is TIMESTAMP(3) or TIMESTAMP_LTZ(3); make a computed column of that type: ts AS CAST(... AS TIMESTAMP(3))
--
-- error[PEN-2001]: WATERMARK: there is no column 'tz'
--   --> case.sql:16:56
--    |
-- 16 | CREATE TABLE e (id INT, ts TIMESTAMP(3), WATERMARK FOR tz AS ts);
--    |                                                        ^^
--    = help: columns are: id, ts
--
-- error[PEN-3001]: the view names 2 columns, its query has 1
--   --> case.sql:17:16
--    |
-- 17 | CREATE VIEW f (a, b) AS SELECT price FROM bids;
--    |                ^
--
-- error[PEN-3001]: the view would have two columns named 'price'
--   --> case.sql:18:13
--    |
-- 18 | CREATE VIEW g AS SELECT price, bidder AS price FROM bids;
--    |             ^
--    = help: rename them: SELECT ... AS name
--
-- error[PEN-2002]: there is a table default_catalog.default_database.bids already, with another definition; here it has: columns +id, -auction, -bidder, -price, -ts, -l and 6 more, -WATERMARK, option -'connector'
--   --> case.sql:19:14
--    |
-- 19 | CREATE TABLE bids (id INT);
--    |              ^^^^
--    = help: `penstock catalog apply FILE` takes the file's definition, ALTER TABLE bids changes the catalog's, DROP TABLE bids forgets it (data stays); IF NOT EXISTS uses the catalog's
--
-- 14 errors; nothing was started
