"""The connector `datagen`: rows made up as they are read (Flink's), for trying a pipeline without a broker.

`settings` reads the options, `generators` make a column each; `planner` tells which rows are due, `reader` makes them.
Row number n of a table with r rows a second belongs to the instant n / r after 1970. So a row's values and times are a
function of its number: what is read again after a failure is what was read before.
"""
