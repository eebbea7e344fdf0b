"""The agent that adds up what pilots report about their machines."""
