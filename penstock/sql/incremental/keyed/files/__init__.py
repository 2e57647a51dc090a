"""Own the files of keyed state: which belong to a batch, by its manifest; how they are written and read.

Called by tasks, the driver's run, compaction, and whoever shows what a checkpoint has.
"""
