-- Flink's types and operators in Spark's words; the form depends on the types.
SELECT price / 3, price / 2.0, d / 2, price / bidder, AVG(price) OVER (PARTITION BY auction), price % 7 FROM bids;
SELECT CAST(ts AS STRING), CAST(l AS STRING), CAST(ok AS STRING), CAST(price AS STRING), CAST(extra AS VARCHAR(3)), CAST(extra AS CHAR(5)) FROM bids;
SELECT CAST(extra AS TIMESTAMP(3)), CAST(extra AS TIMESTAMP_LTZ(3)), CAST(extra AS DATE), TRY_CAST(extra AS INT), CAST(extra AS BYTES) FROM bids;
SELECT m[1], arr[1].x, r.b.c, ARRAY[1, 2][1], MAP['a', 1]['a'], ROW(1, 'x'), CAST(ROW(1, 'x') AS ROW<a BIGINT, b STRING>) FROM bids;
SELECT ts - INTERVAL '1:30' HOUR TO MINUTE, ts + INTERVAL '10' SECOND(3), ts - INTERVAL '2' WEEK, DATE '2026-01-01' + INTERVAL '1' QUARTER FROM bids;
SELECT extra LIKE 'a\b%', extra LIKE 'a!%' ESCAPE '!', 'it''s \d', U&'\00e9', X'1F', extra || 'x' FROM bids;
SELECT LEAST(price, bidder), GREATEST(1, 2), COALESCE(price, 0), NULLIF(price, 0), IF(ok, 1, 2), CASE WHEN ok THEN 1 END FROM bids;
SELECT h / 2 FROM halves;
-- ----- expected
-- SELECT CAST(`price` DIV 3 AS BIGINT), `price` / 2.0, `d` / 2, CAST(`price` DIV `bidder` AS BIGINT), (SUM(CAST(`price` AS DECIMAL(38, 0))) OVER (PARTITION BY `auction`) DIV nullif(COUNT(`price`) OVER (PARTITION BY `auction`), 0)), `price` % 7 FROM `bids` AS `bids`
-- SELECT left(rpad(if(contains(CAST(`ts` AS STRING), '.'), CAST(`ts` AS STRING), concat(CAST(`ts` AS STRING), '.')), 26, '0'), 23), left(rpad(if(contains(CAST(`l` AS STRING), '.'), CAST(`l` AS STRING), concat(CAST(`l` AS STRING), '.')), 26, '0'), 23), upper(CAST(`ok` AS STRING)), CAST(`price` AS STRING), left(CAST(`extra` AS STRING), 3), rpad(CAST(`extra` AS STRING), 5, ' ') FROM `bids` AS `bids`
-- SELECT timestampadd(MICROSECOND, -pmod(unix_micros(CAST(CAST(`extra` AS TIMESTAMP_NTZ) AS TIMESTAMP)), 1000), CAST(`extra` AS TIMESTAMP_NTZ)), timestamp_micros(unix_micros(CAST(`extra` AS TIMESTAMP)) - pmod(unix_micros(CAST(`extra` AS TIMESTAMP)), 1000)), CAST(`extra` AS DATE), TRY_CAST(if(contains(`extra`, '.'), regexp_replace(`extra`, '^(\\s*[+-]?[0-9]+)[.][0-9]*(\\s*)$', '$1'), `extra`) AS INT), CAST(`extra` AS BINARY) FROM `bids` AS `bids`
-- SELECT `m`[1], get(`arr`, 0).`x`, `r`.`b`.`c`, get(ARRAY(1, 2), 0), map('a', 1)['a'], named_struct('EXPR$0', 1, 'EXPR$1', 'x'), CAST(named_struct('EXPR$0', 1, 'EXPR$1', 'x') AS STRUCT<`a`: BIGINT, `b`: STRING>) FROM `bids` AS `bids`
-- SELECT `ts` - INTERVAL '1:30' HOUR TO MINUTE, `ts` + INTERVAL '10' SECOND, `ts` - INTERVAL '14' DAY, CAST('2026-01-01' AS DATE) + INTERVAL '3' MONTH FROM `bids` AS `bids`
-- SELECT `extra` LIKE 'a\\\\b%', `extra` LIKE 'a!%' ESCAPE '!', 'it\'s \\d', 'é', X'1F', `extra` || 'x' FROM `bids` AS `bids`
-- SELECT CASE WHEN `price` IS NULL OR `bidder` IS NULL THEN NULL ELSE least(`price`, `bidder`) END, greatest(1, 2), COALESCE(`price`, 0), NULLIF(`price`, 0), IF(`ok`, 1, 2), CASE WHEN `ok` THEN 1 END FROM `bids` AS `bids`
-- SELECT CAST(`h` DIV 2 AS BIGINT) FROM `halves` AS `halves`
