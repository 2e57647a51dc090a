"""The format `json`, with Flink's options and conversions.

`batches` decodes many records as columns, `records` decodes one at a time what does not fit; `decoder` chooses.
Called by `formats/registry`, `formats/changelog`, `inference` and `spark/encoding`.
"""
