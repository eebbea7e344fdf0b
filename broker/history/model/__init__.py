"""What a history is made of, and what the error codes of jobs say. Pure."""
