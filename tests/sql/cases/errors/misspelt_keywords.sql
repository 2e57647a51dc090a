-- A misspelt keyword is taken for an alias; the error points at it all the same.
SELECT price FORM bids;
SELECT price FROM bids WHRE price > 1;
SELECT price FROM bids b WHRE price > 1;
SELECT auction FROM bids GROPU BY auction;
SELCT price FROM bids;
CREATE TABEL t (a INT);
CREATE TABLE t (a BIGNIT);
SELECT price FROM bids ORDR BY price;
QUIT;
EXPLAIN CHANGELOGMODE SELECT 1;
-- ----- expected
-- error[PEN-1001]: unexpected 'FORM'
--  --> case.sql:2:14
--   |
-- 2 | SELECT price FORM bids;
--   |              ^^^^
--   = help: did you mean FROM?
--
-- error[PEN-1001]: unexpected 'WHRE'
--  --> case.sql:3:24
--   |
-- 3 | SELECT price FROM bids WHRE price > 1;
--   |                        ^^^^
--   = help: did you mean WHERE?
--
-- error[PEN-1001]: unexpected 'WHRE'
--  --> case.sql:4:26
--   |
-- 4 | SELECT price FROM bids b WHRE price > 1;
--   |                          ^^^^
--   = help: did you mean WHERE?
--
-- error[PEN-1001]: unexpected 'GROPU'
--  --> case.sql:5:26
--   |
-- 5 | SELECT auction FROM bids GROPU BY auction;
--   |                          ^^^^^
--   = help: did you mean GROUP?
--
-- error[PEN-1001]: no statement begins with 'SELCT'
--  --> case.sql:6:1
--   |
-- 6 | SELCT price FROM bids;
--   | ^^^^^
--   = help: did you mean SELECT?
--
-- error[PEN-1001]: expected TABLE, VIEW, DATABASE or CATALOG, found 'TABEL'
--  --> case.sql:7:8
--   |
-- 7 | CREATE TABEL t (a INT);
--   |        ^^^^^
--   = help: did you mean TABLE?
--
-- error[PEN-1001]: unknown type 'BIGNIT'
--  --> case.sql:8:19
--   |
-- 8 | CREATE TABLE t (a BIGNIT);
--   |                   ^^^^^^
--   = help: did you mean BIGINT?
--
-- error[PEN-1001]: unexpected 'ORDR'
--  --> case.sql:9:24
--   |
-- 9 | SELECT price FROM bids ORDR BY price;
--   |                        ^^^^
--   = help: did you mean ORDER?
--
-- error[PEN-1001]: no statement begins with 'QUIT'
--   --> case.sql:10:1
--    |
-- 10 | QUIT;
--    | ^^^^
--    = help: that is typed into `penstock shell`; leave it out of files
--
-- error[PEN-1001]: 'CHANGELOGMODE' is no detail of EXPLAIN
--   --> case.sql:11:9
--    |
-- 11 | EXPLAIN CHANGELOGMODE SELECT 1;
--    |         ^^^^^^^^^^^^^
--    = help: did you mean 'CHANGELOG_MODE'?
--
-- 10 errors; nothing was started
