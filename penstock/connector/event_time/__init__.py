"""Event time of raw records: watermarks at planning, reports of tasks, timestamps in the future.

Called by `spark/source`, `local` and `plan/physical`. Rowtime expressions run in DuckDB (`connector/arrow.py`).
"""
