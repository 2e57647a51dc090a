"""Own what `penstock init` writes: a project that runs at once. The files are data beside `files.py`."""
