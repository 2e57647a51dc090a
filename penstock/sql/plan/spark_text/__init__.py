"""Own the SQL of a query whose rows change, as Spark runs it.

Row kinds travel with the rows, and updating operators run in Spark's update mode. Called by `plan` and
`plan/physical`. What cannot run so is refused before, by `plan/placement`.
"""
