"""`penstock test`: rows in, rows out, on the real planner and the real split runtime, with no broker.

loader      YAML files to cases (`cases`), each thing with its place; `nodes` reads the YAML
doubles     a case's tables with fixtures in the place of their connectors
fixed_clock `now:` in the place of the clock
case_run    runs one case: definitions, planning, `queries` step by step; `found` is what came out
comparison  what was expected beside what was found; `difference` aligns rows
suite       runs cases one after the other; `update` rewrites expectations, `junit` writes a report
"""
