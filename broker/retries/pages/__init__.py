"""Pages of retry rules."""
