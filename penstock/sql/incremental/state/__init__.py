"""Own the keyed state of incremental queries and one batch's view of it.

Tables of signed counts, changed keys, differences, event-time buffers. Called by `incremental/operators`.
"""
