-- A string without an end: what stands in front of it is checked, too.
SELECT prise FROM bids;
SELECT 'abc FROM bids;
-- ----- expected
-- error[PEN-2001]: there is no column 'prise'
--  --> case.sql:2:8
--   |
-- 2 | SELECT prise FROM bids;
--   |        ^^^^^
--   = help: did you mean 'price'?
--
-- error[PEN-1001]: this string has no end
--  --> case.sql:3:8
--   |
-- 3 | SELECT 'abc FROM bids;
--   |        ^
--
-- 2 errors; nothing was started
