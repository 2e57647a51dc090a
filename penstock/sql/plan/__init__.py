"""From a typed INSERT or SELECT to a Spark query: what it reads, when it closes, what its checkpoint holds."""
