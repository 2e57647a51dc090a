-- A shop's star schema: three topics in Kafka, two dimensions and two fact tables in Delta, and a view for dashboards.
--   penstock serve --sql examples/bi/star.sql --var bootstrap=127.0.0.1:9092
-- runs the pipeline and serves the tables; `penstock run examples/bi/star.sql` runs the pipeline alone.

CREATE DATABASE IF NOT EXISTS raw COMMENT 'Topics as they come';
CREATE DATABASE IF NOT EXISTS star COMMENT 'What dashboards read';

-- --- the topics ---

CREATE TABLE IF NOT EXISTS raw.customers (
  customer_id BIGINT,
  name        STRING,
  city        STRING,
  segment     STRING
) COMMENT 'A record for each change of a customer, the newest counts' WITH (
  'connector' = 'kafka',
  'topic' = '{{ var("customers", "customers") }}',
  'properties.bootstrap.servers' = '{{ var("bootstrap", "127.0.0.1:9092") }}',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE IF NOT EXISTS raw.products (
  sku      STRING,
  name     STRING,
  category STRING,
  price    DECIMAL(10, 2)
) COMMENT 'A record for each change of a product, the newest counts' WITH (
  'connector' = 'kafka',
  'topic' = '{{ var("products", "products") }}',
  'properties.bootstrap.servers' = '{{ var("bootstrap", "127.0.0.1:9092") }}',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE IF NOT EXISTS raw.orders (
  order_id    BIGINT,
  customer_id BIGINT,
  order_time  TIMESTAMP(3),
  `lines`     ARRAY<ROW<line INT, sku STRING, quantity INT, unit_price DECIMAL(10, 2)>>
) COMMENT 'A record an order, with its lines' WITH (
  'connector' = 'kafka',
  'topic' = '{{ var("orders", "orders") }}',
  'properties.bootstrap.servers' = '{{ var("bootstrap", "127.0.0.1:9092") }}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.max-records-per-batch' = '{{ var("batch", 100000) }}',
  'format' = 'json'
);

-- --- dimensions: upserted by their key ---

CREATE TABLE IF NOT EXISTS star.dim_customers (
  customer_id BIGINT COMMENT 'Number of the customer, from the shop',
  name        STRING COMMENT 'Name on the invoice',
  city        STRING COMMENT 'City of the invoice address',
  segment     STRING COMMENT 'retail, trade or public',
  PRIMARY KEY (customer_id) NOT ENFORCED
) COMMENT 'A row a customer, as of now' WITH ('connector' = 'delta', 'path' = 'star/dim_customers');

CREATE TABLE IF NOT EXISTS star.dim_products (
  sku      STRING        COMMENT 'Stock keeping unit',
  name     STRING        COMMENT 'Name in the catalogue',
  category STRING        COMMENT 'Group of goods',
  price    DECIMAL(10, 2) COMMENT 'List price in EUR, VAT excluded',
  PRIMARY KEY (sku) NOT ENFORCED
) COMMENT 'A row a product, as of now' WITH ('connector' = 'delta', 'path' = 'star/dim_products');

INSERT INTO star.dim_customers SELECT customer_id, name, city, segment FROM raw.customers;

INSERT INTO star.dim_products SELECT sku, name, category, price FROM raw.products;

-- --- facts: materialized tables, kept fresh by a query each ---

CREATE OR ALTER MATERIALIZED TABLE star.fact_order_lines
COMMENT 'A row a line of an order; the lines of an order come together'
WITH ('connector' = 'delta', 'path' = 'star/fact_order_lines')
FRESHNESS = INTERVAL '{{ var("freshness", 2) }}' SECOND
AS SELECT
  o.order_id,
  l.line,
  CARDINALITY(o.`lines`) AS lines_of_order,
  o.customer_id,
  l.sku,
  o.order_time,
  CAST(o.order_time AS DATE) AS order_day,
  l.quantity,
  CAST(l.quantity * l.unit_price AS DECIMAL(12, 2)) AS revenue
FROM raw.orders AS o
CROSS JOIN UNNEST(o.`lines`) AS l (line, sku, quantity, unit_price);

CREATE OR ALTER MATERIALIZED TABLE star.fact_daily_sales (
  PRIMARY KEY (order_day, sku) NOT ENFORCED
)
COMMENT 'A row a day and product, changed as orders come'
WITH ('connector' = 'delta', 'path' = 'star/fact_daily_sales')
FRESHNESS = INTERVAL '{{ var("freshness", 2) }}' SECOND
AS SELECT
  CAST(o.order_time AS DATE) AS order_day,
  l.sku,
  COUNT(*) AS order_lines,
  SUM(l.quantity) AS pieces,
  CAST(SUM(CAST(l.quantity * l.unit_price AS DECIMAL(12, 2))) AS DECIMAL(20, 2)) AS revenue
FROM raw.orders AS o
CROSS JOIN UNNEST(o.`lines`) AS l (line, sku, quantity, unit_price)
GROUP BY CAST(o.order_time AS DATE), l.sku;

-- --- for dashboards: names, units ---

CREATE VIEW IF NOT EXISTS star.sales (
  order_id  COMMENT 'Number of the order, from the shop',
  order_day COMMENT 'Day of the order, UTC',
  customer  COMMENT 'Name on the invoice',
  city      COMMENT 'City of the invoice address',
  segment   COMMENT 'retail, trade or public',
  product   COMMENT 'Name in the catalogue',
  category  COMMENT 'Group of goods',
  quantity  COMMENT 'Pieces',
  revenue   COMMENT 'EUR, VAT excluded'
) COMMENT 'Order lines with the names of customers and products'
AS SELECT f.order_id, f.order_day, c.name, c.city, c.segment, p.name, p.category, f.quantity, f.revenue
FROM star.fact_order_lines AS f
LEFT JOIN star.dim_customers AS c ON f.customer_id = c.customer_id
LEFT JOIN star.dim_products AS p ON f.sku = p.sku;

CREATE VIEW IF NOT EXISTS star.daily_revenue (
  order_day   COMMENT 'Day of the orders, UTC',
  order_lines COMMENT 'Lines, of all orders of the day',
  pieces      COMMENT 'Pieces',
  revenue     COMMENT 'EUR, VAT excluded'
) COMMENT 'Revenue by day'
AS SELECT order_day, SUM(order_lines), SUM(pieces), SUM(revenue) FROM star.fact_daily_sales GROUP BY order_day;
