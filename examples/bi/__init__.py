"""A star schema for a BI tool: orders from Kafka in Delta tables that stay fresh, served over JDBC."""
