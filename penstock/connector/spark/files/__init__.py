"""Files of tables that tasks write themselves: Parquet as Spark reads it, statistics, folders of partitions.

Called by `source` in tasks; `delta` commits what they wrote. Knows nothing of Spark's API.
"""
