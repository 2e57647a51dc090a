-- Orders that are not there with all of their lines: none, whenever one looks
SELECT COUNT(*) AS incomplete
FROM (
  SELECT order_id
  FROM star.fact_order_lines
  GROUP BY order_id
  HAVING COUNT(*) <> MAX(lines_of_order)
) AS torn
