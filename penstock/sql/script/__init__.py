"""Own a project's files before they are statements.

`penstock.toml`, `.env`, templates, and the split of a text into statements. Called by `convert`, `check`,
`session`, `shell` and `cli/commands`.
"""
