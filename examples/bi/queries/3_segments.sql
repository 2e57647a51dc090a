-- Customers, orders and the mean order by segment
SELECT segment, COUNT(DISTINCT customer) AS customers, COUNT(DISTINCT order_id) AS orders,
       CAST(SUM(revenue) / COUNT(DISTINCT order_id) AS DECIMAL(12, 2)) AS mean_order
FROM star.sales
GROUP BY segment
ORDER BY segment
