"""Commands about the database and stored snapshots."""
