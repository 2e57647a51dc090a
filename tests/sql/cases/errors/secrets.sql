-- The line of an error never shows the value of a secret option.
CREATE TABLE a (x INT) WITH ('properties.sasl.password' = 'hunter2' 'topic' = 'x');
CREATE TABLE b (x INT) WITH ('properties.sasl.jaas.config' =
  'hunter2 is it', 'topic' == 'x');
-- ----- expected
-- error[PEN-1001]: expected ')', found a string
--  --> case.sql:2:69
--   |
-- 2 | CREATE TABLE a (x INT) WITH ('properties.sasl.password' = '*******' 'topic' = 'x');
--   |                                                                     ^^^^^^^
--
-- error[PEN-1001]: expected a string, found '='
--  --> case.sql:4:29
--   |
-- 4 |   '*************', 'topic' == 'x');
--   |                             ^
--   = help: quote the key and the value: 'key' = 'value'
--
-- 2 errors; nothing was started
