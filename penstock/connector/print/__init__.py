"""The connectors `print` and `blackhole` (Flink's): sinks that print rows on the driver, or drop them."""
