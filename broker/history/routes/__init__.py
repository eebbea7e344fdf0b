"""Routes of the HTTP API for tasks, jobs, reasons and search."""
