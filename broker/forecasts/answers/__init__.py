"""When work will start: looked up, with its age; and how good what was told of it was."""
