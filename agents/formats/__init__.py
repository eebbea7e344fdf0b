"""The agent that adds up what pilots report of their machines."""
