"""Maintained queries: updating queries that Spark cannot stream, kept up to date batch by batch.

A streaming query reads the feeds; in each micro-batch their changes go through stages, which keep their state in
the checkpoint. stages.py (what a query becomes) <- planning; stages.py -> arrangement.py, run.py (running it).
"""
