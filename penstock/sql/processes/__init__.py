"""The pipelines of a project as processes of one supervisor, each with a Java process of its own, or all in one.

`project_pipelines.py` finds the files, `child.py` starts their processes and reads what they report (`reports.py`),
`process_end.py` decides what follows from the end of one, `supervisor.py` keeps them running; `overview.py` describes
them all, `live_pages.py` asks them for splits and batches, `scrape.py` for their metrics; `orphans.py` collects what
others leave to process 1. Called by `cli/commands`.
"""
