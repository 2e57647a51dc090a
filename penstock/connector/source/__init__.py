"""The split runtime (FLIP-27): splits, the state of a scan, enumerators, watermark alignment.

Pure: knows no engine, no client and no clock. `coordinator` assigns splits, `microbatch` plans batches,
`reader` reads. An executor (`connector/spark/source`, `connector/local`) performs the effects and runs the
readers.
"""
