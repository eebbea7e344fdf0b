"""Rules and failed jobs as rows, and what rules do to files and tasks."""
