"""Bad records within a task: counted, limited, and written to staging files for the driver.

Called by `spark/source` and `event_time` in tasks, and by `dead_letters`, which publishes the files.
`options/bad_records` has the options.
"""
