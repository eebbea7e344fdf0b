"""Answers about pilots and their jobs: matches and why there is none, reports, workers, demand for pilots."""
