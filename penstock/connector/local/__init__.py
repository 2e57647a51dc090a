"""The local executor: runs a split source continuously, with threads in one process and without an engine.

`job` is the entry point of `penstock peek` and `penstock tail`. As in Flink the parts communicate by events: a
coordinator thread (`job_master`), reader threads, and one worker thread for calls that block.
"""
