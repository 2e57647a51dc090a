-- Orders from Kafka into two Delta tables: revenue in windows of ten minutes, and every order as it came.
--   penstock run examples/quickstart.sql --var bootstrap=127.0.0.1:9092

CREATE TABLE IF NOT EXISTS orders (
  order_id   BIGINT,
  customer   STRING,
  product    STRING,
  amount     DECIMAL(10, 2),
  order_time TIMESTAMP(3),
  `partition` INT METADATA VIRTUAL,
  -- Each partition's orders come up to ten seconds out of order. The watermark follows the slowest partition.
  WATERMARK FOR order_time AS order_time - INTERVAL '10' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = '{{ var("topic", "orders") }}',
  'properties.bootstrap.servers' = '{{ var("bootstrap", "127.0.0.1:9092") }}',
  'properties.group.id' = 'quickstart',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'scan.max-records-per-batch' = '{{ var("batch", 100000) }}',
  'format' = 'json'
);

CREATE TABLE IF NOT EXISTS revenue (
  window_start TIMESTAMP(3),
  window_end   TIMESTAMP(3),
  product      STRING,
  orders       BIGINT,
  revenue      DECIMAL(20, 2)
) WITH ('connector' = 'delta', 'path' = 'revenue');

CREATE TABLE IF NOT EXISTS all_orders (
  order_id    BIGINT,
  customer    STRING,
  product     STRING,
  amount      DECIMAL(10, 2),
  order_time  TIMESTAMP(3),
  `partition` INT
) WITH ('connector' = 'delta', 'path' = 'all_orders');

INSERT INTO revenue
SELECT window_start, window_end, product, COUNT(*) AS orders, SUM(amount) AS revenue
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(order_time), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, product;

INSERT INTO all_orders
SELECT order_id, customer, product, amount, order_time, `partition` FROM orders;
