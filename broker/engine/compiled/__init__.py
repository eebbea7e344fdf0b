"""What moves within a cycle, compiled: the same numbers to the bit as the rules and steps give in Python."""
