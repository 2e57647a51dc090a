"""The connector `print`: rows as lines on the driver's stdout or stderr, with their kinds, as Flink prints them."""
