"""What is in the tables of `information_schema`: rows made of names and checkpoints when a query is planned.

`source` is what the planner reads, `rows` makes them by table, `checkpoints` looks into the project's folders. `look`
answers queries over these tables alone without an engine.
"""
