"""The local executor: runs a split source continuously, with threads in one process and no engine.

`LocalJob` is what the rest uses. Inside, Flink's parts talk by events only: a coordinator thread, reader threads,
and one worker thread for all that blocks on the planner.
"""
