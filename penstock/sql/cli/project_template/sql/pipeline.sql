-- The orders are generated, so that this runs without a broker. For a topic, replace WITH (...) by:
--   WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092',
--         'scan.startup.mode' = 'earliest-offset', 'format' = 'json')
CREATE TABLE IF NOT EXISTS orders (
  order_id BIGINT,
  customer_id INT,
  amount DECIMAL(10, 2),
  ordered_at TIMESTAMP(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '{{ var('orders_per_second') }}',
  'fields.order_id.kind' = 'sequence',
  'fields.order_id.start' = '1',
  'fields.order_id.end' = '{{ var('orders') }}',
  'fields.customer_id.min' = '1',
  'fields.customer_id.max' = '50',
  'fields.amount.min' = '1',
  'fields.amount.max' = '500'
);

CREATE TABLE IF NOT EXISTS revenue_per_minute (
  window_start TIMESTAMP(3),
  orders BIGINT,
  revenue DECIMAL(20, 2)
) WITH ('connector' = 'delta', 'path' = 'data/revenue_per_minute');

INSERT INTO revenue_per_minute
SELECT window_start, COUNT(*), SUM(amount)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '1' MINUTE))
WHERE amount > 0
GROUP BY window_start, window_end;
