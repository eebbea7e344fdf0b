"""Pages about decisions: tasks with why their work is where it is, and the rules."""
