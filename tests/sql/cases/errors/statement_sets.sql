-- Statement sets hold INSERTs only, each ends with a semicolon; what is wrong in one is found at its place.
EXECUTE STATEMENT SET BEGIN
  INSERT INTO sink (id, nme) SELECT auction, extra FROM bids;
  INSERT INTO nowhere SELECT price FROM bids;
END;
BEGIN STATEMENT SET; INSERT INTO sink (id) SELECT 1; SELECT 1; END;
BEGIN STATEMENT SET INSERT INTO sink (id) SELECT 1; END;
BEGIN STATEMENT SET; CREATE TABLE made WITH ('connector' = 'print') AS SELECT price FROM bids; END;
BEGIN STATEMENT SET; CREATE TABLE made (a INT, b AS a + 1) WITH ('connector' = 'print'); END;
END;
EXECUTE STATEMENT SET BEGIN END;
EXPLAIN STATEMENT SET BEGIN INSERT INTO sink (id) SELECT 1 END;
EXPLAIN PLAN FOR SHOW TABLES;
EXPLAIN CHANGELOG_MODE, PLAN_ADVIC SELECT 1;
EXECUTE STATEMENT SET BEGIN INSERT INTO sink (id) SELECT 1;
-- ----- expected
-- error[PEN-2001]: there is no column 'nme'
--  --> case.sql:3:25
--   |
-- 3 |   INSERT INTO sink (id, nme) SELECT auction, extra FROM bids;
--   |                         ^^^
--   = help: did you mean 'name'?
--
-- error[PEN-2001]: there is no table or view default_catalog.default_database.nowhere
--  --> case.sql:4:15
--   |
-- 4 |   INSERT INTO nowhere SELECT price FROM bids;
--   |               ^^^^^^^
--   = help: known are: auctions, bids, halves, sink
--
-- error[PEN-1001]: a statement set holds INSERTs only, not SELECT
--  --> case.sql:6:54
--   |
-- 6 | BEGIN STATEMENT SET; INSERT INTO sink (id) SELECT 1; SELECT 1; END;
--   |                                                      ^^^^^^
--   = help: write other statements before it or after it
--
-- error[PEN-1001]: ';' is missing
--  --> case.sql:7:17
--   |
-- 7 | BEGIN STATEMENT SET INSERT INTO sink (id) SELECT 1; END;
--   |                 ^^^
--   = help: BEGIN STATEMENT SET; ... END;
--
-- error[PEN-5001]: CREATE TABLE ... AS inside a statement set is not supported
--  --> case.sql:8:22
--   |
-- 8 | BEGIN STATEMENT SET; CREATE TABLE made WITH ('connector' = 'print') AS SELECT price FROM bids; END;
--   |                      ^^^^^^
--   = help: write CREATE TABLE name (columns) WITH (...) before the set, and in it INSERT INTO name SELECT ...; or CREATE TABLE ... AS by itself, which runs beside the set
--
-- error[PEN-1001]: a statement set holds INSERTs only, not CREATE
--  --> case.sql:9:22
--   |
-- 9 | BEGIN STATEMENT SET; CREATE TABLE made (a INT, b AS a + 1) WITH ('connector' = 'print'); END;
--   |                      ^^^^^^
--   = help: write other statements before it or after it
--
-- error[PEN-1001]: no statement begins with 'END'
--   --> case.sql:10:1
--    |
-- 10 | END;
--    | ^^^
--    = help: END closes a statement set, which BEGIN STATEMENT SET; opens: none is open here
--
-- error[PEN-1001]: this statement set is empty
--   --> case.sql:11:1
--    |
-- 11 | EXECUTE STATEMENT SET BEGIN END;
--    | ^^^^^^^
--    = help: write INSERTs between BEGIN and END
--
-- error[PEN-1001]: ';' is missing before END
--   --> case.sql:12:60
--    |
-- 12 | EXPLAIN STATEMENT SET BEGIN INSERT INTO sink (id) SELECT 1 END;
--    |                                                            ^^^
--    = help: each INSERT ends with ';'
--
-- error[PEN-5001]: only queries, INSERTs, statement sets and tables made of a query have a plan
--   --> case.sql:13:18
--    |
-- 13 | EXPLAIN PLAN FOR SHOW TABLES;
--    |                  ^^^^^^^^^^^
--    = help: EXPLAIN SELECT ..., EXPLAIN INSERT ..., EXPLAIN STATEMENT SET BEGIN ... END or EXPLAIN CREATE TABLE ... AS SELECT ...
--
-- error[PEN-1001]: 'PLAN_ADVIC' is no detail of EXPLAIN
--   --> case.sql:14:25
--    |
-- 14 | EXPLAIN CHANGELOG_MODE, PLAN_ADVIC SELECT 1;
--    |                         ^^^^^^^^^^
--    = help: did you mean 'PLAN_ADVICE'?
--
-- error[PEN-1001]: this statement set has no END
--   --> case.sql:15:1
--    |
-- 15 | EXECUTE STATEMENT SET BEGIN INSERT INTO sink (id) SELECT 1;
--    | ^^^^^^^
--    = help: a statement set ends with END; and each INSERT in it with ';'
--
-- 12 errors; nothing was started
