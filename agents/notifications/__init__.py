"""The agent that tells people and programs what is wrong."""
