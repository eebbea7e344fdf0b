"""What is said of starts, and how it is judged. Pure."""
