-- Share of each city in the revenue of each category, in percent
SELECT category, city, CAST(100 * SUM(revenue) / SUM(SUM(revenue)) OVER (PARTITION BY category) AS DECIMAL(5, 1)) AS share
FROM star.sales
GROUP BY category, city
ORDER BY category, share DESC, city
LIMIT 10
