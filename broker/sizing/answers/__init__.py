"""What a task asks for, with where it came from."""
