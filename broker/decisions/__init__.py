"""Decisions: why a task was placed where it was and not elsewhere, what would help, and their replay."""
