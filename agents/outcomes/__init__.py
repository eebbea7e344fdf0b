"""The agent that folds how jobs ended."""
