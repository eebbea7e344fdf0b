"""Pages of the feature."""
