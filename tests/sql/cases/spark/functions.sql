-- Functions that Spark has under another name, or with another answer at the edges.
SELECT TO_TIMESTAMP(extra), TO_TIMESTAMP(extra, 'yyyy/MM/dd HH:mm'), TO_DATE(extra) FROM bids;
SELECT TO_TIMESTAMP_LTZ(price, 3), TO_TIMESTAMP_LTZ(price, 0), FROM_UNIXTIME(price), UNIX_TIMESTAMP(extra) FROM bids;
SELECT DATE_FORMAT(ts, 'yyyy-MM-dd'), EXTRACT(HOUR FROM ts), HOUR(ts), FLOOR(ts TO HOUR), FLOOR(l TO DAY), FLOOR(d), CEIL(d) FROM bids;
SELECT TIMESTAMPDIFF(MINUTE, ts, ts), TIMESTAMPADD(DAY, 1, ts), TIMESTAMPADD(DAY, 1, CAST(ts AS DATE)) FROM bids;
SELECT CURRENT_TIMESTAMP, NOW(), LOCALTIMESTAMP, CURRENT_DATE, CURRENT_TIME;
SELECT JSON_VALUE(extra, 'lax $.a'), JSON_VALUE(extra, '$.a' RETURNING INT), SPLIT_INDEX(extra, '.', 0) FROM bids;
SELECT REGEXP_EXTRACT(extra, 'a(b)', 1), REGEXP_EXTRACT(extra, 'ab'), REGEXP(extra, 'a') FROM bids;
SELECT CHAR_LENGTH(extra), SUBSTRING(extra FROM 2 FOR 3), TRIM(LEADING 'x' FROM extra), POSITION('a' IN extra), OVERLAY(extra PLACING 'x' FROM 1) FROM bids;
SELECT auction, COUNT(*), LISTAGG(extra), LISTAGG(DISTINCT extra, ';'), SUM(price) FILTER (WHERE ok), AVG(price) FILTER (WHERE ok), ARRAY_AGG(price) FILTER (WHERE ok) FROM bids GROUP BY auction;
SELECT my_function(extra, 1) FROM bids;
-- ----- expected
-- SELECT CASE WHEN `extra` RLIKE '^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}( ([01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9](\\.[0-9]{1,9})?)?$' THEN try_cast(`extra` AS TIMESTAMP_NTZ) END, timestampadd(MICROSECOND, unix_micros(try_to_timestamp(concat(`extra`, ' +0000'), concat('yyyy/MM/dd HH:mm', ' xx'))), TIMESTAMP_NTZ '1970-01-01 00:00:00'), try_cast(`extra` AS DATE) FROM `bids` AS `bids`
-- SELECT timestamp_millis(CASE WHEN `price` BETWEEN -62167219200000L AND 253402300799999L THEN CAST(`price` AS BIGINT) END), timestamp_millis(CASE WHEN `price` BETWEEN -62167219200L AND 253402300799L THEN CAST(`price` * 1000L AS BIGINT) END), from_unixtime(`price`), unix_timestamp(`extra`, 'yyyy-MM-dd HH:mm:ss') FROM `bids` AS `bids`
-- SELECT date_format(`ts`, 'yyyy-MM-dd'), CAST(extract(HOUR FROM `ts`) AS BIGINT), CAST(extract(HOUR FROM `ts`) AS BIGINT), CAST(date_trunc('HOUR', `ts`) AS TIMESTAMP_NTZ), date_trunc('DAY', `l`), FLOOR(`d`), CEIL(`d`) FROM `bids` AS `bids`
-- SELECT CAST((`ts` - `ts`) DIV INTERVAL '1' MINUTE AS INT), timestampadd(DAY, 1, `ts`), CAST(timestampadd(DAY, 1, CAST(`ts` AS DATE)) AS DATE) FROM `bids` AS `bids`
-- SELECT current_timestamp(), current_timestamp(), localtimestamp(), current_date(), current_time()
-- SELECT GET_JSON_OBJECT(`extra`, '$.a'), TRY_CAST(GET_JSON_OBJECT(`extra`, '$.a') AS INT), get(split(`extra`, concat('\\Q', '.', '\\E')), 0) FROM `bids` AS `bids`
-- SELECT CASE WHEN `extra` RLIKE 'a(b)' THEN regexp_extract(`extra`, 'a(b)', 1) END, CASE WHEN `extra` RLIKE 'ab' THEN regexp_extract(`extra`, 'ab', 0) END, (`extra` RLIKE 'a') FROM `bids` AS `bids`
-- SELECT CHAR_LENGTH(`extra`), SUBSTRING(`extra`, 2, 3), TRIM(LEADING 'x' FROM `extra`), LOCATE('a', `extra`), OVERLAY(`extra` PLACING 'x' FROM 1) FROM `bids` AS `bids`
-- SELECT `auction`, COUNT(*), listagg(`extra`, ','), listagg(DISTINCT `extra`, ';'), SUM(`price`) FILTER (WHERE `ok`), CAST(AVG(`price`) FILTER (WHERE `ok`) AS BIGINT), collect_list(`price`) FILTER (WHERE `ok`) RESPECT NULLS FROM `bids` AS `bids` GROUP BY `auction`
-- SELECT MY_FUNCTION(`extra`, 1) FROM `bids` AS `bids`
