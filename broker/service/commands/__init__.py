"""Commands of the service: start it, install and examine it, pause agents, alarms, tools for assistants."""
