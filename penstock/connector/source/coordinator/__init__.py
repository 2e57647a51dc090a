"""The source coordinator (FLIP-27): enumerators, split assignments, checkpoints.

Called by `spark/source`, `local` and the connectors with enumerators. A state machine: events in, effects out.
"""
