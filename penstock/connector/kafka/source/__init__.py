"""Reading Kafka tables through the split runtime: metadata on the driver, records in tasks.

`source` describes the scan; it opens `metadata_client` on the driver and `reader` in tasks.
"""
