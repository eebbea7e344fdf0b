"""Answers about the service itself: what runs, alarms, the flow of work, examination and installation."""
