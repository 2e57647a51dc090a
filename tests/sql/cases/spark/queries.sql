-- Clauses around expressions.
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT b.auction, a.seller FROM bids AS b LEFT JOIN auctions a ON b.auction = a.id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR;
WITH q AS (SELECT price AS p FROM bids WHERE ok) SELECT p FROM q UNION ALL SELECT seller FROM auctions;
SELECT auction, u.x, u.y FROM bids CROSS JOIN UNNEST(arr) AS u (x, y);
SELECT /*+ BROADCAST(a) */ price FROM bids /*+ OPTIONS('scan.startup.mode' = 'latest-offset') */ AS b JOIN auctions AS a ON a.id = b.auction;
SELECT default_database.bids.price FROM default_database.bids;
INSERT INTO sink (name, id) VALUES ('a', 1), ('b', CAST(NULL AS BIGINT));
INSERT INTO sink SELECT auction, extra, extra FROM bids;
-- ----- expected
-- SELECT `window_start`, `window_end`, COUNT(*) AS `n` FROM window_0 GROUP BY `window_start`, `window_end`
-- SELECT `b`.`auction`, `a`.`seller` FROM `bids` AS `b` LEFT JOIN `auctions` AS `a` ON `b`.`auction` = `a`.`id` AND `b`.`ts` BETWEEN `a`.`ts` AND `a`.`ts` + INTERVAL '1' HOUR
-- WITH `q` AS (SELECT `price` AS `p` FROM `bids` AS `bids` WHERE `ok`) SELECT `p` FROM `q` UNION ALL SELECT `seller` FROM `auctions` AS `auctions`
-- SELECT `auction`, `u`.`x`, `u`.`y` FROM `bids` AS `bids` CROSS JOIN LATERAL INLINE(`arr`) AS `u`(`x`, `y`)
-- SELECT /*+ BROADCAST(a) */ `price` FROM `bids` AS `b` JOIN `auctions` AS `a` ON `a`.`id` = `b`.`auction`
-- SELECT `bids`.`price` FROM `default_database`.`bids` AS `bids`
-- VALUES ('a', 1), ('b', CAST(NULL AS BIGINT))
-- SELECT `auction`, `extra`, `extra` FROM `bids` AS `bids`
