"""History: what waits and why, and what happened to a task, a job or a user's work."""
