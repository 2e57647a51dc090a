"""What sources of generated rows share: numbered rows as one split, and random values made of a row's number.

`rows` says what a connector describes, `source` makes a scan of it, `reader` plans the rows that are there and reads
them, `random` draws values. Called by `connector/datagen` and `nexmark`.
"""
