"""The Spark executor of the split runtime: the only place that knows Spark's Python data source API."""
