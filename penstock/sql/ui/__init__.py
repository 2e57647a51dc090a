"""The status page and its JSON API: read-only, over the jobs of this process, the catalog and checkpoint directories.

`documents` makes the JSON; `application.py` routes requests, `pages.py` writes HTML of the same documents, `charts.py`
and `lineage_chart.py` its drawings. `server.py` listens; `access.py` says who may open the page, `guard.py` holds
requests to it. Called by `penstock ui`, and by `penstock run` and `penstock up` with `--ui-port`.
"""
