"""Answers about gdpconfig values and canaries, and how they are changed."""
