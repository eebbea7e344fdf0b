"""The agents that end jobs: timeouts and rebrokerages."""
