"""What pilots ask and report, what they are answered, and what becomes of their jobs: decisions only, no I/O."""
