"""Answers about the quality of decisions: how far cycles are from the best placement of their jobs."""
