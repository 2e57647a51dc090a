"""Tables of files in a folder, line by line. `connector` checks a table and describes its scan and its sink.

`planner` is the driver's side (listing, sizes, peeks), `reader` a task's; `lines` knows where lines begin and end,
`location` is the only module that asks the file system.
"""
