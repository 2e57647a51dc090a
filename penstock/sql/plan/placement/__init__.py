"""Choose the engine of each operator of a logical plan: Spark's append mode, its update mode, or a stage.

The only place that refuses what no engine runs. Traits are values: the rows that an engine gives of an operator, or
why it cannot run it.
"""
