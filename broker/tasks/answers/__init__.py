"""Submitting tasks, and where the contents of their input come from."""
