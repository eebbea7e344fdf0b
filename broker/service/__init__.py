"""The running service: agents, alarms, metrics, events and the database itself."""
