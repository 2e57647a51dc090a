"""The source coordinator (FLIP-27): enumerators, split assignments, checkpoints.

Called by `spark/source` and `local`. A state machine: events in, effects out.
"""
