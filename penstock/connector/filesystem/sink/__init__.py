"""Writing files exactly once: staged by Spark, listed in a manifest, then moved into place."""
