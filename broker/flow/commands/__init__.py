"""Commands for the quality of decisions."""
