"""Requests of tasks: memory, time and disk by their scouts and finished jobs, and the origin of each value."""
