"""The split runtime (FLIP-27): enumerator, coordinator, watermark, read limits, readers, fetchers.

Pure: it knows no engine, no client and no clock. An executor (`connector/spark`) drives it: performs the
coordinator's effects and runs its readers.
"""
