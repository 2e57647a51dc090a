"""Tables of the split runtime as Spark data sources: planning on the driver, reading in tasks, frames.

The only user of Spark's Python data source API. Called by `sql` and `dead_letters`.
"""
