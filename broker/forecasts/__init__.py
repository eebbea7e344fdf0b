"""When work will start, and how good what was said of it was."""
