"""Stored decisions: written together with their effects, and read back by cycle or by task."""
