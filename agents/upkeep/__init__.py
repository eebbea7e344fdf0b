"""Agents that remove expired rows and archive finished jobs."""
