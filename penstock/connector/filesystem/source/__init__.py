"""Reading files line by line through the split runtime: listing on the driver, lines in tasks."""
