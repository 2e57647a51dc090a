"""The connector `datagen` (Flink's): generated rows, for trying a pipeline without a broker.

`settings` reads the options, `generators` makes columns, `connector` says which rows are due; `connector/generated`
plans and reads them. Row n of a table with r rows a second has the instant n / r after 1970: its values and times are
a function of its number, so a retry reads the same rows again.
"""
