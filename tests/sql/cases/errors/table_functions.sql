-- Table functions are the user's own, in Python; what cannot be one, and what a join cannot do with one.
CREATE FUNCTION words AS 'texts.words' LANGUAGE PYTHON;
CREATE FUNCTION score AS 'com.example.Score' LANGUAGE JAVA;
SELECT w FROM bids, LATERAL TABLE(wrds(extra)) AS x (w);
SELECT w FROM bids, LATERAL TABLE(split_up(extra)) AS x (w);
SELECT w FROM bids, LATERAL TABLE(explode(arr)) AS x (w);
SELECT w FROM TABLE(tumbel('a')) AS x (w);
SELECT w FROM bids, LATERAL TABLE(score(extra)) AS x (w);
SELECT w FROM bids, LATERAL TABLE(words(text => extra)) AS x (w);
SELECT w FROM bids, TABLE(words(extra)) AS x (w);
SELECT w FROM bids LEFT JOIN LATERAL TABLE(words(extra)) AS x (w) ON w <> 'a';
SELECT w FROM bids JOIN LATERAL TABLE(words(extra)) AS x (w) ON w <> 'a';
SELECT w FROM bids RIGHT JOIN LATERAL TABLE(words(extra)) AS x (w) ON TRUE;
SELECT x.word FROM bids, LATERAL TABLE(words(extra)) AS x (w);
SELECT x.w FROM bids, LATERAL TABLE(words(bids.extr)) AS x (w);
SELECT word FROM TABLE(words('a b')) AS x (w);
-- ----- expected
-- error[PEN-2001]: there is no table function wrds
--  --> case.sql:4:35
--   |
-- 4 | SELECT w FROM bids, LATERAL TABLE(wrds(extra)) AS x (w);
--   |                                   ^^^^
--   = help: did you mean 'words'?
--
-- error[PEN-2001]: there is no table function split_up
--  --> case.sql:5:35
--   |
-- 5 | SELECT w FROM bids, LATERAL TABLE(split_up(extra)) AS x (w);
--   |                                   ^^^^^^^^
--   = help: CREATE FUNCTION split_up AS 'module.attribute' LANGUAGE PYTHON names a class decorated with pyspark's @udtf
--
-- error[PEN-2001]: there is no table function explode
--  --> case.sql:6:35
--   |
-- 6 | SELECT w FROM bids, LATERAL TABLE(explode(arr)) AS x (w);
--   |                                   ^^^^^^^
--   = help: CROSS JOIN UNNEST(a) AS x (item) takes an array apart
--
-- error[PEN-2001]: there is no table function tumbel
--  --> case.sql:7:21
--   |
-- 7 | SELECT w FROM TABLE(tumbel('a')) AS x (w);
--   |                     ^^^^^^
--   = help: did you mean TUMBLE?
--
-- error[PEN-5001]: the table function SCORE is not supported: it is written in Java
--  --> case.sql:8:35
--   |
-- 8 | SELECT w FROM bids, LATERAL TABLE(score(extra)) AS x (w);
--   |                                   ^^^^^
--   = help: write it in Python: a class with eval(), decorated with pyspark's @udtf
--
-- error[PEN-5001]: the table function WORDS is not supported
--  --> case.sql:9:35
--   |
-- 9 | SELECT w FROM bids, LATERAL TABLE(words(text => extra)) AS x (w);
--   |                                   ^^^^^^^^^^^^^^^^^^^
--   = help: a table function in Python takes values, by their position
--
-- error[PEN-3001]: TABLE(words(...)) sees no column of the tables beside it
--   --> case.sql:10:33
--    |
-- 10 | SELECT w FROM bids, TABLE(words(extra)) AS x (w);
--    |                                 ^^^^^
--    = help: write LATERAL TABLE(words(...)) behind the table that has 'extra'
--
-- error[PEN-5001]: a condition of a join with LATERAL TABLE(...) is not supported
--   --> case.sql:11:70
--    |
-- 11 | SELECT w FROM bids LEFT JOIN LATERAL TABLE(words(extra)) AS x (w) ON w <> 'a';
--    |                                                                      ^^^^^^^^
--    = help: write ON TRUE, and leave rows out in the function itself
--
-- error[PEN-5001]: a condition of a join with LATERAL TABLE(...) is not supported
--   --> case.sql:12:65
--    |
-- 12 | SELECT w FROM bids JOIN LATERAL TABLE(words(extra)) AS x (w) ON w <> 'a';
--    |                                                                 ^^^^^^^^
--    = help: write ON TRUE, and the condition in WHERE
--
-- error[PEN-5001]: RIGHT JOIN with LATERAL TABLE(...) is not supported
--   --> case.sql:13:20
--    |
-- 13 | SELECT w FROM bids RIGHT JOIN LATERAL TABLE(words(extra)) AS x (w) ON TRUE;
--    |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
--    = help: what is: CROSS JOIN, JOIN ... ON TRUE and LEFT JOIN ... ON TRUE
--
-- error[PEN-2001]: 'x' has no column 'word'
--   --> case.sql:14:10
--    |
-- 14 | SELECT x.word FROM bids, LATERAL TABLE(words(extra)) AS x (w);
--    |          ^^^^
--    = help: there are: w
--
-- error[PEN-2001]: 'bids' has no column 'extr'
--   --> case.sql:15:48
--    |
-- 15 | SELECT x.w FROM bids, LATERAL TABLE(words(bids.extr)) AS x (w);
--    |                                                ^^^^
--    = help: did you mean 'extra'?
--
-- error[PEN-2001]: there is no column 'word'
--   --> case.sql:16:8
--    |
-- 16 | SELECT word FROM TABLE(words('a b')) AS x (w);
--    |        ^^^^
--    = help: there are: w
--
-- 13 errors; nothing was started
