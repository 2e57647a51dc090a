"""The definition of a Kafka table as checked values: options, topics, startup mode, key and value columns.

Loads no client. Called by `kafka/source`, `kafka/sink` and `kafka/connector`.
"""
