"""Own the Python API: `Session`, the frames of tables, and `run_file`; record classes for `prepare`.

Called by `penstock` (`connect`), `cli`, `serve` and `notebook`.
"""
