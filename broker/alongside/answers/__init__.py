"""What is said of running alongside PanDA, and the copying of its tables."""
