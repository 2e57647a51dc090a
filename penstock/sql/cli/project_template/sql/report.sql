-- Reads what the pipeline wrote; its tables are in the catalog since it ran.
SELECT window_start, orders, revenue FROM revenue_per_minute ORDER BY window_start;
