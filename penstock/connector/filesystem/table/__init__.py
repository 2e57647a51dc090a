"""The definition of a filesystem table as checked values: options, location, partitions, files as splits.

`location` is the only module that asks the file system. Called by `filesystem/source`, `filesystem/sink` and
`filesystem/connector`.
"""
