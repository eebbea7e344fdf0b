"""The brokerage agents, and what they read and write around a decision."""
