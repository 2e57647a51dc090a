"""Options that several connectors share: watermarks, bad records, legacy spellings.

Called by `connector/kafka`, `filesystem`, `datagen`, `dead_letters`, `bad_records` and `sql/convert`.
The options of one connector are in its own folder.
"""
