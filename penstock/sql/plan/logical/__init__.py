"""Own the logical plan of a query: immutable operators, and what is known of their rows whichever engine runs them."""
