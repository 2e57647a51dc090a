"""Options that several connectors share: watermarks, bad records, legacy spellings.

Called by the settings of connectors. The options of one connector are in its own folder.
"""
