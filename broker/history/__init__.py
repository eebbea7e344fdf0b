"""History: what waits and for which reason, and what happened to a task, a job or a user's work."""
