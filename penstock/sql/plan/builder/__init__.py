"""Build the logical plan of a query from its syntax. Called by `plan/analysis`."""
