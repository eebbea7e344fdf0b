"""Answers about feeds: documents of sources that are handed in."""
