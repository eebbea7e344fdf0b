"""The HTTP API about decisions: those of a task, of brokerages without writing, and stored ones; and the rules."""
