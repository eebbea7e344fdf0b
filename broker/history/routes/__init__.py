"""The HTTP API about jobs and users, and the search."""
