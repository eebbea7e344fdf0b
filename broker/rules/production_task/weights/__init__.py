"""Weights of the task brokerage."""
