"""Pages about the quality of decisions."""
