"""The agents that remove what has been kept for long enough."""
