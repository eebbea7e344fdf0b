"""What tasks ask for: memory, time and disk by their scouts and finished jobs, and where each value came from."""
