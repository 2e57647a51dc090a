"""From Flink SQL text to running queries.

A file goes template.py -> script.py -> dialect/ -> lower.py (with bind.py) -> statements.py, and from
there to plan/ and run/. errors.py shows what was wrong; show.py writes definitions back as text.
"""
