"""Stored decisions: written with what they brought about, and read back by cycle or by task."""
