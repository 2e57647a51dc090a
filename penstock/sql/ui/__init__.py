"""The status page and its JSON API: read-only, over the jobs of this process, the catalog and checkpoint directories.

`live.py` and `stored.py` make documents of a pipeline that runs here and of any other, `dead_letters.py` those of
letters, `table_details.py` what the page of a table adds; `documents.py` says which fields they have, `openapi.py`
describes them; `application.py` routes requests, `pages.py` writes HTML of the same documents, `charts.py` and
`lineage_chart.py` its drawings. `server.py` listens; `access.py` says who may open the page, `guard.py` holds requests
to it. Called by `penstock ui`, and by `penstock run` and `penstock up` with `--ui-port`.
"""
