"""The Kafka client: connections, admin requests, consumers, errors. Loads confluent_kafka, as `sink/client` does.

Called by `kafka/source`, `kafka/sink`, `kafka/inference` and `cli/commands`.
"""
