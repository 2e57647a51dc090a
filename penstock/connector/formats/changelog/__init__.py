"""Changelog formats over JSON envelopes: Debezium, Canal, Maxwell and GoldenGate.

Each format defines its envelope; `decoder` makes rows and row kinds of it. Called by `formats/contract`.
"""
