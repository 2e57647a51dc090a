"""Read the clauses of a SELECT over streams: its list, OVER, joins, queries in WHERE, rowtimes.

A reader returns what a clause says, or the Refusal of what no stage runs; it plans and changes nothing. Called by
`plan/builder` and `incremental/planning`.
"""
