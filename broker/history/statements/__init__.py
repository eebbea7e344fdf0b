"""SQL of histories: facts of tasks and jobs, tasks by their last decision, and recorded events."""
