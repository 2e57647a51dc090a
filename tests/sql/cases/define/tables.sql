-- Definitions come back in one spelling, secrets hidden.
CREATE TABLE IF NOT EXISTS orders (
  id BIGINT NOT NULL COMMENT 'the key', -- a comment
  `order` ROW<items ARRAY<ROW<sku STRING, n INT NOT NULL>>, `by` MAP<STRING, BYTES>>,
  tags MULTISET<STRING>,
  price DECIMAL(10, 2),
  at STRING METADATA FROM 'timestamp' VIRTUAL,
  offset_ BIGINT METADATA,
  rowtime AS TO_TIMESTAMP ( at ) /* from text */ COMMENT 'event time',
  cents AS CAST(price * 100 AS BIGINT),
  WATERMARK FOR rowtime AS rowtime - INTERVAL '1:30' MINUTE TO SECOND,
  CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'it''s' PARTITIONED BY (id)
WITH ('connector' = 'kafka', 'properties.sasl.password' = 'hunter2');
CREATE TEMPORARY TABLE t2 (a INT PRIMARY KEY NOT ENFORCED, b TIMESTAMP WITH LOCAL TIME ZONE, c CHAR, d VARCHAR(10)) WITH ('connector' = 'x');
CREATE VIEW v (w, n) COMMENT 'counts' AS
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
CREATE TEMPORARY VIEW x AS WITH c AS (SELECT default_database.bids.price AS p FROM default_database.bids) SELECT c.* FROM c;
-- ----- expected
-- CREATE TABLE `default_catalog`.`default_database`.`orders` (
--   `id` BIGINT NOT NULL COMMENT 'the key',
--   `order` ROW<`items` ARRAY<ROW<`sku` STRING, `n` INT NOT NULL>>, `by` MAP<STRING, BYTES>>,
--   `tags` MULTISET<STRING>,
--   `price` DECIMAL(10, 2),
--   `at` STRING METADATA FROM 'timestamp' VIRTUAL,
--   `offset_` BIGINT METADATA,
--   `rowtime` AS TO_TIMESTAMP(at) COMMENT 'event time',
--   `cents` AS CAST(price * 100 AS BIGINT),
--   WATERMARK FOR `rowtime` AS rowtime - INTERVAL '1:30' MINUTE TO SECOND,
--   CONSTRAINT `pk` PRIMARY KEY (`id`) NOT ENFORCED
-- )
-- COMMENT 'it''s'
-- PARTITIONED BY (`id`)
-- WITH (
--   'connector' = 'kafka',
--   'properties.sasl.password' = '******'
-- )
-- CREATE TEMPORARY TABLE `default_catalog`.`default_database`.`t2` (
--   `a` INT,
--   `b` TIMESTAMP_LTZ(6),
--   `c` CHAR(1),
--   `d` VARCHAR(10),
--   PRIMARY KEY (`a`) NOT ENFORCED
-- )
-- WITH (
--   'connector' = 'x'
-- )
-- CREATE VIEW `default_catalog`.`default_database`.`v` (`w`, `n`)
-- COMMENT 'counts'
-- AS SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE `default_catalog`.`default_database`.`bids`, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end
-- CREATE TEMPORARY VIEW `default_catalog`.`default_database`.`x`
-- AS WITH c AS (SELECT bids.price AS p FROM `default_catalog`.`default_database`.`bids` AS `bids`) SELECT c.* FROM c
