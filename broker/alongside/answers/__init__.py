"""Answers about running alongside PanDA, and the copying of its tables."""
