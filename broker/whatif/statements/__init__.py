"""SQL of what-ifs: stored cycles as cases, and the rows of runs."""
