"""The source reader (FLIP-27): fetchers, their queue, and the operator that computes watermarks.

Called by `spark/source` in tasks, and by `local`.
"""
