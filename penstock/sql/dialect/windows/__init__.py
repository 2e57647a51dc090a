"""Own windows in a query's text: windowing table functions, legacy group windows, grouping sets beside them.

Called by `binding`, `plan` and `dialect/rewrites`.
"""
