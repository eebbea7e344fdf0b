"""SQL statements for the quality of decisions."""
