"""The agents that broker, and what they read and write around a decision."""
