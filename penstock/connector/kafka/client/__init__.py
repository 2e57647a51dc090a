"""The Kafka client: connections, admin requests, consumers, errors. Loads confluent_kafka, as `sink/client` does.

Called by source, sink, inference and `penstock kafka`.
"""
