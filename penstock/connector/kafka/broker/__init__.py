"""The embedded single-node broker (KRaft) of `penstock kafka`, the demo and tests, as a child process."""
