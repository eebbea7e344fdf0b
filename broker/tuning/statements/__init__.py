"""The tuning in the database: rows of gdpconfig with their versions, and canaries."""
