-- Revenue by day
SELECT order_day, order_lines, pieces, revenue
FROM star.daily_revenue
ORDER BY order_day
