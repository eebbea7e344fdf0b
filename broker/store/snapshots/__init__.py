"""Snapshots: the raw rows of every source read, stored, exported and loaded again."""
