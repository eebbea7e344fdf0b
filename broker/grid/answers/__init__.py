"""Answers about the grid as it is now: queues, nuclei, links, shares, and what its tables lack."""
