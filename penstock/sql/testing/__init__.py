"""`penstock test`: rows in, rows out, on the real planner and the real split runtime, with no broker.

`loader.py` reads YAML files (`yaml_nodes.py`) to cases (`cases.py`); `substitutes.py` puts fixtures (`sources.py`,
`input_rows.py`) in the place of a case's connectors, and `now:` in the place of the clock. `case_run.py`
runs the cases: `statements.py` plans, `queries.py` runs step by step and reads what came out, `comparison.py`
holds it beside the expectations. `report.py` shows differences and writes JUnit's XML, `update.py` rewrites
expectations.
"""
