"""The connectors `kafka` and `upsert-kafka`.

`table` is the definition as checked values, `client` the client library, `source` and `sink` read and write,
`broker` is an embedded broker for the demo and tests. `connector` checks a table and describes
source and sink; `inference` samples a topic.
"""
