"""The connector `delta`: Delta tables by path, appended to exactly once, read by Spark itself."""
