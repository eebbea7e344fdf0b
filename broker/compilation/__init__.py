"""Compiles the loop of cycles in a process beside the one that decides."""
