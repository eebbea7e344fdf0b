"""Rules and channels, messages sent, a test of a channel, and subscriptions."""
