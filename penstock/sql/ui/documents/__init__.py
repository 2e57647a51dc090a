"""The JSON documents of the API: `fields.py` says which fields they have, `openapi.py` describes them.

`live.py` makes those of a pipeline that runs here, `stored.py` those of any other and of the catalog; `plan.py` has the
operators and sinks of both, `dead_letters.py` letters, `table_details.py` what the page of a table adds. Called by
`application.py`; what takes long is looked for once somebody asks for the page.
"""
