"""Jobs that wait or run for too long: found in one scan, and ended by one writer."""
