"""Own the parser of Flink SQL on top of sqlglot's: `flink_parser` has its tables, each other module one family.

A function `parse_x(parser)` reads x where the parser stands. It calls functions of its own module and of those it
imports; what only a module above it knows (a query in an expression), it asks of the parser by sqlglot's method.
"""
