"""The page of the quality of decisions."""
