"""Own the Python API: `Session`, the frames of tables, and `run_file`.

Called by `penstock` (`connect`), `serve` and `notebook`.
"""
