"""Compilation of the loop of cycles in a process separate from the one that decides."""
