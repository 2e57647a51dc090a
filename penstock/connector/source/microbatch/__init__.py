"""Planning of micro-batches: how far each split is read, read limits, idleness, the watermark.

Called by `spark/source/planning`. A state machine: events in, effects out; the time is passed in.
"""
