"""Functions of values on Arrow arrays, as Spark computes them; `connector/fragments.py` calls them by name."""
