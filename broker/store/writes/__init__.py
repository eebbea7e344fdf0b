"""The write-back of the brokerages: jobs, files, counters and tasks, each batch in one fenced transaction."""
