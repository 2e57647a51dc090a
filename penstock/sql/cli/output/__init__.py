"""Own what commands print: reports, rows, progress, plans and summaries. Called by `cli/commands` and `notebook`."""
