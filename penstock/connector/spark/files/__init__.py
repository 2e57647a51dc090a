"""Files of tables that tasks write themselves: Parquet as Spark reads it, statistics, folders of partitions.

Called by `source` in tasks; sinks commit what they wrote, by `spark/sink/task_files.py`. Knows nothing of Spark's API.
"""
