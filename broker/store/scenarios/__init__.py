"""Loading scenario files into the database and dumping them from it."""
