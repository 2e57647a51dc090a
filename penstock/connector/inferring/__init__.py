"""Discovery: what a table over records that are already there would look like. Knows no client and no engine.

From samples, schemas and footers to a draft of a CREATE TABLE with its reasons (`draft`); reading them is the part of
the connectors, printing that of the command line.
"""
