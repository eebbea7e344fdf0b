"""Removing what has been kept for long enough, and archiving jobs that have ended."""
