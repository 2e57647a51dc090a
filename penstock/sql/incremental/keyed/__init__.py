"""Operators over the changes of one bucket of keys: pure functions of Arrow tables and keyed state, without Spark.

`choose.py` says which stage has one, and why another is left to Spark.
"""
