"""The demo: a million skewed orders through Penstock, and beside it what Spark's own watermark keeps of them."""
