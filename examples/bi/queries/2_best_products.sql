-- The five products with the highest revenue
SELECT p.category, p.name, SUM(d.pieces) AS pieces, SUM(d.revenue) AS revenue
FROM star.fact_daily_sales AS d
JOIN star.dim_products AS p ON d.sku = p.sku
GROUP BY p.category, p.name
ORDER BY revenue DESC, p.name
LIMIT 5
