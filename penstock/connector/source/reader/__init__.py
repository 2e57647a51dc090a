"""The source reader (FLIP-27): fetchers, their queue, and the operator that computes watermarks.

Called by tasks in `spark/source` and by `local`.
"""
