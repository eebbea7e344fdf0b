"""Submitted tasks in the database: datasets, files, serial numbers, chains."""
