"""Own what is known of the files of a Delta table without an engine: live files, deletion vectors, positions of keys.

Called by `compaction.py` and `upsert.py` of the folder above; imports nothing of it.
"""
