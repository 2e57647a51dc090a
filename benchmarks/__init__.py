"""Measurements, each a module that `make bench` runs and that writes into `results/`."""
