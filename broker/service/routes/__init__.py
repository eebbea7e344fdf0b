"""The HTTP API about the service: health, agents and alarms, metrics, live events, and who the sender is."""
