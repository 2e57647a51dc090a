"""Inference of tables from samples, schemas and footers. Knows no client and no engine.

The result is an `inferred_table` with the reason for each part. The connectors read samples (`kafka/inference`,
`filesystem/inference`, `delta/catalog`); `penstock catalog infer` prints the table.
"""
