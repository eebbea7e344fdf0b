"""The HTTP API about decisions: those of a task, decisions of brokerages without writing, and stored ones."""
