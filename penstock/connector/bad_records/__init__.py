"""Bad records within a task: counted, limited, and written to staging files for the driver.

Called by the tasks in `spark/source` and by `event_time`. `dead_letters` publishes the files,
`options/bad_records` has the options.
"""
