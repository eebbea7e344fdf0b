"""Routes of the feature."""
