-- A user's table function, by its name; one in a LEFT JOIN gives a row where it has none.
CREATE FUNCTION words AS 'texts.words' LANGUAGE PYTHON;
SELECT auction, w FROM bids, LATERAL TABLE(words(extra)) AS x (w);
SELECT b.auction, x.* FROM bids AS b CROSS JOIN LATERAL TABLE(Words(b.extra, 2)) AS x;
SELECT auction, w FROM bids JOIN LATERAL TABLE(words(extra)) AS x (w) ON TRUE WHERE w <> 'a';
SELECT auction, UPPER(w) FROM bids LEFT JOIN LATERAL TABLE(words(extra)) AS x (w) ON TRUE;
SELECT * FROM TABLE(words('a b'));
SELECT w FROM words('a b') AS x (w);
SELECT a.w, b.w FROM LATERAL TABLE(words('a b')) AS a (w), LATERAL TABLE(words(a.w)) AS b (w);
-- ----- expected
-- SELECT `auction`, `w` FROM `bids` AS `bids`, LATERAL WORDS(`extra`) AS `x`(`w`)
-- SELECT `b`.`auction`, `x`.* FROM `bids` AS `b` CROSS JOIN LATERAL WORDS(`b`.`extra`, 2) AS `x`
-- SELECT `auction`, `w` FROM `bids` AS `bids` CROSS JOIN LATERAL WORDS(`extra`) AS `x`(`w`) WHERE `w` <> 'a'
-- SELECT `auction`, upper(`w`) FROM `bids` AS `bids` CROSS JOIN LATERAL PENSTOCK_LEFT_WORDS(`extra`) AS `x`(`w`)
-- SELECT * FROM WORDS('a b')
-- SELECT `w` FROM WORDS('a b') AS `x`(`w`)
-- SELECT `a`.`w`, `b`.`w` FROM WORDS('a b') AS `a`(`w`), LATERAL WORDS(`a`.`w`) AS `b`(`w`)
