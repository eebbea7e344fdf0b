"""What a task asks for, over HTTP."""
