"""The format `json`, with Flink's options and conversions.

`batches` decodes many records as columns, `decoder` chooses, and decodes one at a time what does not fit.
Called by `formats/contract`, `formats/changelog`, `inference` and `spark/encoding`.
"""
