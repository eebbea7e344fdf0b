"""Answers about the quality of decisions."""
