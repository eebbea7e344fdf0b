"""Filters of the task brokerage."""
