"""Routes for the quality of decisions."""
