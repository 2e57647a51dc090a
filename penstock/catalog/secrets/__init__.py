"""Secrets: encryption keys, the protocol of secret stores, and masking in output and logs."""
