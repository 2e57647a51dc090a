"""From the syntax tree of a statement to its value, a module for each family of statements."""
