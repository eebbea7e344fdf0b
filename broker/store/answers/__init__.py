"""Reads for answers: facts of tasks, jobs that failed, shares, agents."""
