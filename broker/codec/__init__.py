"""What is stored of work and decisions as bytes, and read again."""
