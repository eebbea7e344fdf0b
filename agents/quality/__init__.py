"""The agent that measures how good decisions were."""
