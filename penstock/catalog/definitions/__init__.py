"""Catalogs as the rest of Penstock uses them: the protocol, name resolution, overlays, leases and history.

Flink's counterpart is the CatalogManager. Pure but for external catalogs; `store/` keeps a catalog in a
database.
"""
