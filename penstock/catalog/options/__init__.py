"""Options of tables, catalogs and sessions: typed descriptors, references to secrets and files, redaction.

Connectors declare their options with `option.py`; every place that prints options goes through `redaction.py`.
"""
