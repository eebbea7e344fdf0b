"""Jobs of tasks as columns, and requests of tasks as rows."""
