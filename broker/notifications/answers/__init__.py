"""What is told where, what was told, tries of a channel, and subscriptions."""
