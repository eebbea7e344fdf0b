"""What is said of running alongside PanDA."""
