"""Metrics of running jobs for Prometheus: `families.py` names them, `collector.py` builds their values at a scrape,
`endpoint.py` answers the scrape, `otel.py` pushes them. Called by `penstock run` and `penstock up`.
"""
