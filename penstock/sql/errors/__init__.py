"""Own how errors are shown: as text with a caret, as JSON, as GitHub annotations.

Also error codes, positions, and Spark's exceptions as Penstock's errors. Called by `jobs`, `runner`,
`session`, `shell`, `notebook`, `sql/testing` and `cli/commands`.
"""
