"""The schema of the database: numbered files, and their installation."""
