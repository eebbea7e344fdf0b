"""The agent that reads the input of tasks that wait for it, and where contents of datasets come from."""
