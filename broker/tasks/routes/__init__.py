"""Routes of tasks in the HTTP API."""
