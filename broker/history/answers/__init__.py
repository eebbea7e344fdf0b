"""Answers about what waits and what happened: tasks, jobs, users, reasons, and search."""
