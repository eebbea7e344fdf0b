"""Inputs of the classes of queues, users, tasks and shares, and their rows in PanDA's tables."""
