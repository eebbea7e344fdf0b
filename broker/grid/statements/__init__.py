"""Reads and writes of what the grid is."""
