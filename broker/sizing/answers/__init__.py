"""The request of a task, with the origin of each value."""
